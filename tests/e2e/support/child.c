#include "child.h"

#include "base/clock.h"
#include "spawn.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define START_LIMIT_NS (60 * NS_PER_S)

static void pause_ms(int ms)
{
    (void)poll(NULL, 0, ms);
}

static void path_of(const struct child *child, const char *suffix, char path_out[256])
{
    snprintf(path_out, 256, "%s/%s.%s", child->folder, child->name, suffix);
}

void child_print_log(const struct child *child)
{
    char path[256];
    path_of(child, "log", path);
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    fprintf(stderr, "---- log of %s\n", child->name);
    char line[512];
    while (fgets(line, sizeof line, file))
        fputs(line, stderr);
    fclose(file);
}

bool child_log_has(const struct child *child, const char *part)
{
    return child_log_count(child, part) > 0;
}

uint32_t child_log_count(const struct child *child, const char *part)
{
    char path[256];
    char *line = NULL;
    size_t room = 0;
    uint32_t n = 0;
    path_of(child, "log", path);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file, "%s", path);
    while (getline(&line, &room, file) >= 0)
        n += strstr(line, part) != NULL;
    free(line);
    fclose(file);
    return n;
}

bool child_log_wait(const struct child *child, const char *part)
{
    uint64_t until_ns = clock_now_ns() + 60 * NS_PER_S;
    while (!child_log_has(child, part)) {
        if (clock_now_ns() >= until_ns)
            return false;
        pause_ms(10);
    }
    return true;
}

/* Of "127.0.0.1:50051"; 0 where nothing listens. */
static uint16_t port_of(json_t *root, const char *key)
{
    const char *address = json_string_value(json_object_get(root, key));
    const char *colon = address ? strrchr(address, ':') : NULL;
    return colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

/* Whether the ports file is there, and what it says of them, with ready or not. */
static bool read_ports(struct child *child, bool may_be_unready)
{
    char path[256];
    path_of(child, "ports", path);
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    if (!root)
        return false;
    child->grpc = port_of(root, "grpc");
    child->engine = port_of(root, "engine");
    child->http = port_of(root, "http");
    child->control = port_of(root, "control");
    child->health = port_of(root, "health");
    child->metrics = port_of(root, "metrics");
    const char *incarnation = json_string_value(json_object_get(root, "incarnation"));
    child->incarnation = incarnation ? strtoull(incarnation, NULL, 16) : 0;
    bool is_ready = json_is_true(json_object_get(root, "ready"));
    json_decref(root);
    return is_ready || may_be_unready;
}

static void begin(struct child *child)
{
    char ports[256], log[256];
    path_of(child, "ports", ports);
    path_of(child, "log", log);
    (void)unlink(ports);

    char *argv[ARGUMENTS_MAX + 4];
    uint32_t n = 0;
    argv[n++] = (char *)(uintptr_t)child->binary;
    for (uint32_t i = 0; i < child->n_arguments; i++)
        argv[n++] = child->arguments[i];
    argv[n++] = "--ports-file";
    argv[n++] = ports;
    argv[n] = NULL;

    const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const int output = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    cr_assert(input >= 0 && output >= 0, "cannot open %s", log);
    child->pid = spawn_bound(argv, input, output, output);
    close(input);
    close(output);
}

static void await_ports(struct child *child, bool may_be_unready)
{
    uint64_t until_ns = clock_now_ns() + START_LIMIT_NS;
    while (!read_ports(child, may_be_unready)) {
        int status;
        if (waitpid(child->pid, &status, WNOHANG) == child->pid || clock_now_ns() > until_ns) {
            child_print_log(child);
            cr_assert_fail("%s did not become ready", child->name);
        }
        pause_ms(5);
    }
}

static void spawn(struct child *child, bool may_be_unready)
{
    begin(child);
    await_ports(child, may_be_unready);
}

static void set_up(struct child *child, const char *folder, const char *name,
                   const char *const *arguments)
{
    memset(child, 0, sizeof *child);
    child->binary = KVFERRY_BINARY;
    snprintf(child->name, sizeof child->name, "%s", name);
    snprintf(child->folder, sizeof child->folder, "%s", folder);
    for (; *arguments; arguments++) {
        cr_assert_lt(child->n_arguments, ARGUMENTS_MAX);
        snprintf(child->arguments[child->n_arguments++], sizeof *child->arguments, "%s",
                 *arguments);
    }
}

void child_start(struct child *child, const char *folder, const char *name,
                 const char *const *arguments)
{
    set_up(child, folder, name, arguments);
    spawn(child, false);
}

void child_begin_binary(struct child *child, const char *binary, const char *folder,
                        const char *name, const char *const *arguments)
{
    set_up(child, folder, name, arguments);
    child->binary = binary;
    begin(child);
}

void child_await_ready(struct child *child)
{
    await_ports(child, false);
}

void child_start_binary(struct child *child, const char *binary, const char *folder,
                        const char *name, const char *const *arguments)
{
    child_begin_binary(child, binary, folder, name, arguments);
    child_await_ready(child);
}

void child_start_unready(struct child *child, const char *folder, const char *name,
                         const char *const *arguments)
{
    set_up(child, folder, name, arguments);
    spawn(child, true);
}

/* Puts the port it had into an argument that asked for any. */
static void keep_port(struct child *child, const char *flag, uint16_t port)
{
    for (uint32_t i = 0; i + 1 < child->n_arguments; i++)
        if (strcmp(child->arguments[i], flag) == 0)
            snprintf(child->arguments[i + 1], sizeof *child->arguments, "127.0.0.1:%u", port);
}

/* While nobody listens, a port of any connection on the machine may be the same: a socket that is bound to it keeps it. -1: none. */
static int hold_port(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;
    int fd = port ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    cr_assert_eq(bind(fd, (const struct sockaddr *)&address, sizeof address), 0, "port %u: %s",
                 port, strerror(errno));
    return fd;
}

void child_restart(struct child *child)
{
    const struct {
        const char *flag;
        uint16_t port;
    } kept[] = {{"--grpc-address", child->grpc},
                {"--control-address", child->control},
                {"--health-address", child->health},
                {"--metrics-address", child->metrics}};
    enum { N_KEPT = sizeof kept / sizeof kept[0] };
    int held[N_KEPT];
    child_kill(child);
    for (int i = 0; i < N_KEPT; i++) {
        keep_port(child, kept[i].flag, kept[i].port);
        held[i] = hold_port(kept[i].port);
    }
    spawn(child, false);
    for (int i = 0; i < N_KEPT; i++)
        if (held[i] >= 0)
            close(held[i]);
}

void child_signal(struct child *child, int signal_number)
{
    cr_assert_gt(child->pid, 0);
    cr_assert_eq(kill(child->pid, signal_number), 0);
}

int child_wait(struct child *child, uint32_t limit_ms)
{
    uint64_t until_ns = clock_now_ns() + limit_ms * NS_PER_MS;
    int status = 0;
    while (waitpid(child->pid, &status, WNOHANG) != child->pid) {
        if (clock_now_ns() > until_ns) {
            child_print_log(child);
            cr_assert_fail("%s did not end in %u ms", child->name, limit_ms);
        }
        pause_ms(2);
    }
    child->pid = 0;
    return status;
}

void child_stop(struct child *child)
{
    if (child->pid == 0)
        return;
    child_signal(child, SIGTERM);
    int status = child_wait(child, 60000);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        child_print_log(child);
        cr_assert_fail("%s ended with wait status %d", child->name, status);
    }
}

void child_kill(struct child *child)
{
    if (child->pid == 0)
        return;
    child_signal(child, SIGKILL);
    (void)child_wait(child, 10000);
}

/* ---- metrics ---- */

static char *http_get(uint16_t port, const char *path)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0, "metrics port %u",
                 port);
    char request[128];
    int n = snprintf(request, sizeof request,
                     "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    cr_assert_eq(write(fd, request, (size_t)n), n);

    size_t bytes = 0, bytes_max = 1 << 20;
    char *text = malloc(bytes_max + 1);
    cr_assert_not_null(text);
    ssize_t got;
    while (bytes < bytes_max && (got = read(fd, text + bytes, bytes_max - bytes)) > 0)
        bytes += (size_t)got;
    text[bytes] = '\0';
    close(fd);
    return text;
}

double child_metric(const struct child *child, const char *name, const char *label_part)
{
    char *text = http_get(child->metrics, "/metrics");
    double sum = 0;
    bool found = false;
    size_t name_bytes = strlen(name);
    char *rest = text, *line;
    while ((line = strsep(&rest, "\n"))) {
        if (strncmp(line, name, name_bytes) != 0 ||
            (line[name_bytes] != ' ' && line[name_bytes] != '{'))
            continue;
        char *value = strrchr(line, ' ');
        if (!value || !strstr(line, label_part))
            continue;
        sum += strtod(value, NULL);
        found = true;
    }
    free(text);
    return found ? sum : -1;
}

unsigned child_http_status(const struct child *child, const char *path)
{
    char *text = http_get(child->metrics, path);
    unsigned status = 0;
    cr_assert_eq(sscanf(text, "HTTP/1.1 %u", &status), 1, "%s", text);
    free(text);
    return status;
}

uint32_t child_descriptors(const struct child *child)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)child->pid);
    DIR *folder = opendir(path);
    cr_assert_not_null(folder);
    uint32_t n = 0;
    while (readdir(folder))
        n++;
    closedir(folder);
    return n - 2; /* . and .. */
}

uint64_t child_resident_bytes(const struct child *child)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/statm", (int)child->pid);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    unsigned long long size, resident;
    cr_assert_eq(fscanf(file, "%llu %llu", &size, &resident), 2);
    fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
