/* What a process does when the system refuses it something: it serves, or says so and ends; it is not
 * live when it cannot serve any more, and only then. */

#include "base/clock.h"
#include "grpc/health/v1/health.pb-c.h"
#include "support/cluster.h"
#include "support/dial.h"
#include "support/ports.h"
#include "support/spawn.h"
#include "tests/base/support/folder.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_NS (60 * NS_PER_S) /* of any wait here */

static char folder[128];

static void remove_folder(void)
{
    if (folder[0])
        folder_remove(folder);
}

TestSuite(process, .fini = remove_folder);

#define ROUTER                                                                                     \
    "router", KVFERRY_DEMO_MODEL, "--generation-workers", "127.0.0.1:1", ROUTER_PORTS,             \
        "--log-format", "json"
#define GENERATION_WORKER                                                                          \
    "gen-worker", KVFERRY_DEMO_MODEL, WORKER_PORTS, "--threads", "1", "--kv-blocks", "256"

static void start_worker(struct child *child, const char *more, const char *value)
{
    folder_make(folder, sizeof folder, "e2e");
    const char *const arguments[] = {GENERATION_WORKER, more, value, NULL};
    child_start(child, folder, "worker", arguments);
}

static void wait_http_status(const struct child *child, const char *path, unsigned wanted)
{
    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    while (child_http_status(child, path) != wanted) {
        if (clock_now_ns() > until_ns) {
            child_print_log(child);
            cr_assert_fail("%s does not become %u", path, wanted);
        }
        (void)poll(NULL, 0, 20);
    }
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_geq(fd, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0, "port %u: %s", port,
                 strerror(errno));
    return fd;
}

/* HTTP/2's preface and empty SETTINGS. */
static const char HELLO[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0";

/* Whether a server of HTTP/2 answers on a new connection in that time. */
static bool is_served(uint16_t port, unsigned limit_s)
{
    char bytes[9];
    int fd = connect_to(port);
    struct timeval limit = {.tv_sec = limit_s};
    cr_assert_eq(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    (void)!send(fd, HELLO, sizeof HELLO, MSG_NOSIGNAL);
    bool is = recv(fd, bytes, sizeof bytes, 0) > 0;
    close(fd);
    return is;
}

/* ---- a log that nobody reads ---- */

/* Its log is a pipe that is full from the start. Returns the end that nobody reads. */
static int make_full_log(const char *name)
{
    char path[192];
    static const char bytes[4096] = {'.'};
    snprintf(path, sizeof path, "%s/%s.log", folder, name);
    cr_assert_eq(mkfifo(path, 0600), 0);
    int reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    int writer = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    cr_assert(reader >= 0 && writer >= 0);
    while (write(writer, bytes, sizeof bytes) > 0)
        ;
    close(writer);
    return reader;
}

Test(process, a_log_that_nobody_reads_stops_nothing, .timeout = 300)
{
    struct child child;
    folder_make(folder, sizeof folder, "e2e");
    int reader = make_full_log("worker");
    const char *const arguments[] = {GENERATION_WORKER, NULL};
    child_start(&child, folder, "worker", arguments);
    cr_expect_eq(child_http_status(&child, "/healthz"), 200);
    cr_expect_eq(child_http_status(&child, "/readyz"), 200);
    cr_expect_eq(child_metric(&child, "kvferry_log_lines_dropped_total", ""), 0);
    child_stop(&child);
    close(reader);
}

/* ---- ports without descriptors ---- */

#define DESCRIPTORS       200
#define MORE_THAN_ALLOWED 300

static void read_status(void *arg, const ProtobufCMessage *message)
{
    *(int *)arg = (int)((const Grpc__Health__V1__HealthCheckResponse *)message)->status;
}

/* What the health service says of one name. */
static bool is_serving(const struct child *child, const char *name)
{
    struct dial dial;
    int status = 0;
    dial_open(&dial, "health", child->health);
    Grpc__Health__V1__HealthCheckRequest message = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    message.service = (char *)name;
    struct rpc_request request = {
        .path = "/grpc.health.v1.Health/Check",
        .message = &message.base,
        .response = &grpc__health__v1__health_check_response__descriptor,
        .deadline_ns = clock_now_ns() + LIMIT_NS,
        .on_message = read_status,
        .arg = &status,
    };
    struct rpc_error error;
    cr_assert_eq(rpc_channel_call_wait(dial.channel, &request, &error), STATUS_OK, "%s",
                 error.message);
    dial_close(&dial);
    return status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
}

Test(process, a_port_that_had_no_descriptor_accepts_again_and_was_live, .timeout = 300)
{
    struct child child;
    int fds[MORE_THAN_ALLOWED];
    start_worker(&child, NULL, NULL);
    cr_assert(is_served(child.control, 60));

    const struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    cr_assert_eq(prlimit(child.pid, RLIMIT_NOFILE, &limit, NULL), 0);
    for (uint32_t i = 0; i < MORE_THAN_ALLOWED; i++)
        fds[i] = connect_to(child.control);
    cr_assert(child_log_wait(&child, "no descriptor for a connection"));
    for (uint32_t i = 0; i < MORE_THAN_ALLOWED; i++)
        close(fds[i]);

    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    while (!is_served(child.control, 1))
        cr_assert_lt(clock_now_ns(), until_ns, "nobody is served after the lack");
    wait_http_status(&child, "/healthz", 200);
    cr_expect(is_serving(&child, "liveness"));
    cr_expect_not(child_log_has(&child, "accepts no connections"));
    cr_expect_geq(child_metric(&child, "kvferry_relay_struck_total", "limit=\"descriptors\""), 1);
    child_stop(&child);
}

/* A connection a turn, some with the first bytes of HTTP/2, until told to stop. */
struct flood {
    uint16_t port;
    atomic_uint_fast64_t n_connections;
    atomic_bool stop;
    pthread_t thread;
};

static void *flood_port(void *arg)
{
    static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    struct flood *flood = arg;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(flood->port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const struct linger reset = {.l_onoff = 1}; /* leaves no TIME_WAIT */
    while (!atomic_load(&flood->stop)) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        (void)!connect(fd, (const struct sockaddr *)&address, sizeof address);
        if (flood->n_connections++ % 2)
            (void)!send(fd, hello, strlen(hello), MSG_NOSIGNAL);
        close(fd);
    }
    return NULL;
}

enum { N_FLOODS = 3 };

static uint64_t n_connections(struct flood *floods)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < N_FLOODS; i++)
        n += atomic_load(&floods[i].n_connections);
    return n;
}

/* With limits that make it eager to find fault. */
Test(process, a_flood_of_connections_is_no_death, .timeout = 300)
{
    enum { N_LOOKS = 200, N_CONNECTIONS = 3000 };
    struct child child;
    struct flood floods[N_FLOODS];
    start_worker(&child, "--watchdog-ms", "1s");
    for (uint32_t i = 0; i < N_FLOODS; i++) {
        floods[i] = (struct flood){.port = i ? child.control : child.health};
        cr_assert_eq(pthread_create(&floods[i].thread, NULL, flood_port, &floods[i]), 0);
    }
    for (uint32_t i = 0; i < N_LOOKS || n_connections(floods) < N_CONNECTIONS; i++) {
        cr_expect_eq(child_http_status(&child, "/healthz"), 200);
        (void)poll(NULL, 0, 20);
    }
    for (uint32_t i = 0; i < N_FLOODS; i++) {
        atomic_store(&floods[i].stop, true);
        cr_assert_eq(pthread_join(floods[i].thread, NULL), 0);
    }
    cr_expect_not(child_log_has(&child, "no progress"));
    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    while (!is_served(child.control, 60)) /* the last ones of the flood are refused, and we too */
        cr_assert_lt(clock_now_ns(), until_ns, "serves nobody after the flood");
    child_stop(&child);
}

/* ---- a thread of gRPC's queue that stands still ---- */

static pid_t find_thread(const struct child *child, const char *name)
{
    char path[400], found[32];
    pid_t thread = 0;
    snprintf(path, sizeof path, "/proc/%d/task", (int)child->pid);
    DIR *tasks = opendir(path);
    cr_assert_not_null(tasks);
    for (struct dirent *entry; !thread && (entry = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/%d/task/%s/comm", (int)child->pid, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file && fgets(found, sizeof found, file) && strncmp(found, name, strlen(name)) == 0)
            thread = (pid_t)strtol(entry->d_name, NULL, 10);
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return thread;
}

Test(process, a_queue_thread_that_stands_still_is_no_liveness, .timeout = 300)
{
    static const char *const threads[] = {"rpc-server", "rpc-client"};
    struct child child;
    start_worker(&child, "--watchdog-ms", "1s");
    for (uint32_t i = 0; i < 2; i++) {
        char line[64];
        int status;
        wait_http_status(&child, "/healthz", 200);
        pid_t thread = find_thread(&child, threads[i]);
        cr_assert_gt(thread, 0, "no thread %s", threads[i]);
        cr_assert_eq(ptrace(PTRACE_SEIZE, thread, NULL, NULL), 0, "%s", strerror(errno));
        cr_assert_eq(ptrace(PTRACE_INTERRUPT, thread, NULL, NULL), 0);
        cr_assert_eq(waitpid(thread, &status, __WALL), thread);
        wait_http_status(&child, "/healthz", 503);
        snprintf(line, sizeof line, "no progress: thread %s", threads[i]);
        cr_expect(child_log_wait(&child, line), "nobody says \"%s\"", line);
        cr_assert_eq(ptrace(PTRACE_DETACH, thread, NULL, NULL), 0);
    }
    wait_http_status(&child, "/healthz", 200);
    cr_expect_eq(child_log_count(&child, "no progress"), 2, "once each");
    cr_expect_eq(child_log_count(&child, "\"level\":\"error\""), 0, "it is a warning");
    child_stop(&child);
}

/* ---- a start without memory or threads ---- */

#ifndef KVFERRY_SANITIZED /* whose shadow memory leaves no limit on address space */

enum { N_STARTS = 16, FIRST_MIB = 60, STEP_MIB = 20 };

struct start {
    pid_t pid; /* 0: ended */
    bool was_stopped;
    char log[192];
};

static void start_within(struct start *start, uint32_t mib)
{
    char kib[16];
    snprintf(kib, sizeof kib, "%u", mib * 1024);
    snprintf(start->log, sizeof start->log, "%s/%u.log", folder, mib);
    const char *const argv[] = {
        "/bin/sh", "-c", "ulimit -v \"$0\" && exec \"$@\"", kib, KVFERRY_BINARY, ROUTER, NULL};
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int output = open(start->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    cr_assert(input >= 0 && output >= 0);
    start->pid = spawn_bound((char *const *)argv, input, output, output);
    close(input);
    close(output);
}

static bool log_has(const char *path, const char *text)
{
    char line[4096];
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    bool has = false;
    while (!has && fgets(line, sizeof line, file))
        has = strstr(line, text) != NULL;
    fclose(file);
    return has;
}

/* One that serves is told to stop; one that ends without having served says why. */
static void look_at(struct start *start)
{
    int status;
    if (waitpid(start->pid, &status, WNOHANG) == start->pid) {
        start->pid = 0;
        cr_expect(start->was_stopped || (status != 0 && log_has(start->log, "cannot start")),
                  "%s ended with wait status %d", start->log, status);
    } else if (!start->was_stopped && log_has(start->log, "ready in")) {
        start->was_stopped = true;
        cr_assert_eq(kill(start->pid, SIGTERM), 0);
    }
}

static void say_where_it_hangs(const struct start *start)
{
    char text[4096] = "";
    FILE *file = fopen(start->log, "r");
    if (file) {
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        fclose(file);
    }
    cr_assert_fail("%s does not end%s:\n%s", start->log, start->was_stopped ? " after SIGTERM" : "",
                   text);
}

Test(process, a_start_without_memory_ends_with_a_sentence, .timeout = 300)
{
    struct start starts[N_STARTS] = {0};
    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    folder_make(folder, sizeof folder, "e2e");
    for (uint32_t i = 0; i < N_STARTS; i++)
        start_within(&starts[i], FIRST_MIB + i * STEP_MIB);
    for (uint32_t n_running = N_STARTS; n_running > 0;) {
        n_running = 0;
        for (uint32_t i = 0; i < N_STARTS; i++) {
            if (starts[i].pid)
                look_at(&starts[i]);
            if (starts[i].pid && clock_now_ns() >= until_ns)
                say_where_it_hangs(&starts[i]);
            n_running += starts[i].pid != 0;
        }
        (void)poll(NULL, 0, 10);
    }
}

#endif
