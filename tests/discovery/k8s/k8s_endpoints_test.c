/* k8s_endpoints: the addresses of a Service follow an API server that pages, cuts, forgets, is slow, silent, restarted
 * or lies; a server that is not the cluster's gets nothing; stop waits for nobody. The server is tests/roles/api_server.py. */
#include "discovery/k8s/k8s_endpoints.h"
#include "process/syscall_filter.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define LIMIT_S 60

static struct {
    char folder[64];
    char address[32];
    pid_t pid;
    FILE *out;
} server;

static int told[2]; /* a pipe: each set as a line */
static struct error error;
static struct k8s_endpoints *endpoints;

/* ---- the server ---- */

static void expect_word(const char *word, char *rest, size_t rest_bytes)
{
    char line[64] = "";
    cr_assert(fgets(line, sizeof line, server.out), "the server has ended");
    cr_assert_eq(strncmp(line, word, strlen(word)), 0, "%s", line);
    line[strcspn(line, "\n")] = '\0';
    if (rest)
        snprintf(rest, rest_bytes, "%s", line + strlen(word));
}

static void start_server(const char *scenario)
{
    int out[2];
    char script[] = KVFERRY_SOURCE_DIR "/tests/roles/api_server.py", name[32], port[16];
    char *words[] = {"python3", "-B", script, server.folder, name, NULL};
    posix_spawn_file_actions_t actions;
    snprintf(server.folder, sizeof server.folder, "/tmp/k8s_endpoints.XXXXXX");
    snprintf(name, sizeof name, "%s", scenario);
    cr_assert(mkdtemp(server.folder));
    cr_assert_eq(pipe(out), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, out[0]);
    cr_assert_eq(posix_spawnp(&server.pid, "python3", &actions, NULL, words, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    server.out = fdopen(out[0], "r");
    expect_word("ready ", port, sizeof port);
    snprintf(server.address, sizeof server.address, "127.0.0.1:%s", port);
}

static void remove_folder(void)
{
    char *words[] = {"rm", "-r", server.folder, NULL};
    pid_t pid;
    cr_assert_eq(posix_spawnp(&pid, "rm", NULL, NULL, words, environ), 0);
    waitpid(pid, NULL, 0);
}

static void end_server(void)
{
    kill(server.pid, SIGKILL);
    waitpid(server.pid, NULL, 0);
    fclose(server.out);
    remove_folder();
}

/* ---- the sets ---- */

static void on_change(void *arg, const char *const *addresses, uint32_t n)
{
    char line[1024] = "";
    (void)arg;
    for (uint32_t i = 0; i < n; i++)
        snprintf(line + strlen(line), sizeof line - strlen(line), "%s ", addresses[i]);
    size_t bytes = strlen(line);
    line[bytes] = '\n';
    cr_assert_eq(write(told[1], line, bytes + 1), (ssize_t)bytes + 1);
}

static void expect_set(const char *wanted)
{
    char line[1024];
    size_t n = 0;
    do {
        struct pollfd look = {.fd = told[0], .events = POLLIN};
        cr_assert_eq(poll(&look, 1, LIMIT_S * 1000), 1, "no set, wanted: %s", wanted);
        cr_assert_eq(read(told[0], &line[n], 1), 1);
    } while (line[n++] != '\n');
    line[n - 1] = '\0';
    cr_assert_str_eq(line, wanted);
}

/* Quick where a person would wait; the silences of a server are those of the options. */
static struct k8s_endpoints_options quick_options(void)
{
    return (struct k8s_endpoints_options){
        .name_space = "",
        .service = "kv-context",
        .server = server.address,
        .folder = server.folder,
        .limits = {.settle_ms = 1, .backoff_min_ms = 1, .backoff_max_ms = 8, .well_ms = 1},
        .on_change = on_change};
}

static void start(const struct k8s_endpoints_options *options)
{
    cr_assert_eq(pipe(told), 0);
    cr_assert_eq(k8s_endpoints_start(options, &error, &endpoints), STATUS_OK, "%s", error.text);
}

static void start_scenario(const char *scenario)
{
    start_server(scenario);
    const struct k8s_endpoints_options options = quick_options();
    start(&options);
}

/* Nothing but what was expected was told. */
static void end(void)
{
    k8s_endpoints_stop(endpoints);
    struct pollfd look = {.fd = told[0], .events = POLLIN};
    cr_assert_eq(poll(&look, 1, 0), 0, "a set too many");
    end_server();
}

/* ---- tests ---- */

Test(k8s_endpoints, lists_page_by_page_and_watches_on_from_the_last_version, .timeout = 2 * LIMIT_S)
{
    start_server("follow");
    struct k8s_endpoints_options options = quick_options();
    options.limits.settle_ms = 1000; /* four events of one watch are one change */
    start(&options);
    expect_set("10.244.0.31:50052 10.244.1.17:50052 10.244.2.9:50052 [fd00:10:244:9::5]:50152 ");
    expect_set("10.244.1.17:50052 10.244.2.40:50052 10.244.2.9:50052 ");
    expect_set("10.244.2.40:50052 [fd00:10:244:1::11]:50052 ");
    expect_word("done", NULL, 0);
    end();
}

Test(k8s_endpoints, lists_again_when_a_version_is_forgotten, .timeout = 2 * LIMIT_S)
{
    start_scenario("expired");
    expect_set("10.0.0.1:50052 ");
    expect_set("10.0.0.2:50052 ");
    expect_set("10.0.0.3:50052 ");
    expect_word("done", NULL, 0);
    end();
}

Test(k8s_endpoints, takes_the_new_token_after_401, .timeout = 2 * LIMIT_S)
{
    start_scenario("rotated");
    expect_set("10.0.0.1:50052 ");
    expect_set("10.0.0.2:50052 ");
    end();
}

Test(k8s_endpoints, a_line_cut_in_the_middle_comes_again, .timeout = 2 * LIMIT_S)
{
    start_scenario("cut");
    expect_set("10.0.0.1:50052 ");
    expect_set("10.0.0.2:50052 ");
    expect_set("10.0.0.2:50052 10.0.0.3:50052 ");
    end();
}

Test(k8s_endpoints, bytes_may_come_one_by_one, .timeout = 2 * LIMIT_S)
{
    start_scenario("slow");
    expect_set("10.0.0.1:50052 ");
    expect_set("10.0.0.1:50052 10.0.0.2:50052 ");
    end();
}

Test(k8s_endpoints, a_service_that_does_not_exist_is_empty, .timeout = 2 * LIMIT_S)
{
    start_scenario("empty");
    expect_set("");
    expect_set("10.0.0.1:50052 ");
    end();
}

Test(k8s_endpoints, another_ca_is_not_trusted_until_the_file_has_it, .timeout = 2 * LIMIT_S)
{
    start_scenario("wrong_ca");
    expect_set("10.0.0.1:50052 ");
    end();
}

Test(k8s_endpoints, a_certificate_of_another_address_is_refused, .timeout = 2 * LIMIT_S)
{
    start_scenario("wrong_name");
    expect_set("10.0.0.1:50052 ");
    end();
}

Test(k8s_endpoints, a_server_may_have_a_name, .timeout = 2 * LIMIT_S)
{
    char name[40];
    start_server("watched");
    struct k8s_endpoints_options options = quick_options();
    snprintf(name, sizeof name, "localhost:%s", strchr(server.address, ':') + 1);
    options.server = name;
    options.port = "7";
    start(&options);
    expect_set("10.0.0.1:7 ");
    end();
}

/* A name to look up, TLS, a watch, and its end. */
static void watch_under_the_filter(const struct k8s_endpoints_options *options)
{
    char byte;
    syscall_filter_begin();
    if (k8s_endpoints_start(options, &error, &endpoints) != STATUS_OK)
        _exit(3);
    if (read(told[0], &byte, 1) != 1)
        _exit(4);
    k8s_endpoints_stop(endpoints);
    _exit(0);
}

Test(k8s_endpoints, needs_no_system_call_that_seccomp_refuses, .timeout = 2 * LIMIT_S)
{
    char name[40];
    int status;
    start_server("watched");
    struct k8s_endpoints_options options = quick_options();
    snprintf(name, sizeof name, "localhost:%s", strchr(server.address, ':') + 1);
    options.server = name;
    cr_assert_eq(pipe(told), 0);
    pid_t child = fork();
    if (child == 0)
        watch_under_the_filter(&options);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
    end_server();
}

Test(k8s_endpoints, lies_change_nothing_and_end, .timeout = 4 * LIMIT_S)
{
    start_scenario("lies");
    expect_set("10.0.0.1:50052 ");
    expect_set("10.0.0.2:50052 ");
    expect_word("done", NULL, 0);
    end();
}

Test(k8s_endpoints, a_silent_server_is_asked_again, .timeout = 2 * LIMIT_S)
{
    start_server("silent");
    struct k8s_endpoints_options options = quick_options();
    options.limits.answer_ms = 2000;
    options.limits.silence_ms = 1000;
    start(&options);
    expect_set("10.0.0.1:50052 ");
    expect_set("10.0.0.2:50052 ");
    expect_word("done", NULL, 0);
    end();
}

/* The defaults would wait for 15 s and more. */
Test(k8s_endpoints, stop_waits_for_no_server, .timeout = 2 * LIMIT_S)
{
    static const char *const SCENARIOS[] = {"unready", "mute", "watched", "flood"};
    for (size_t i = 0; i < sizeof SCENARIOS / sizeof *SCENARIOS; i++) {
        start_server(SCENARIOS[i]);
        struct k8s_endpoints_options options = quick_options();
        options.limits.answer_ms = options.limits.silence_ms = 1000 * LIMIT_S * 10;
        start(&options);
        if (i >= 2)
            expect_set("10.0.0.1:50052 ");
        expect_word("done", NULL, 0);
        end();
    }
}

Test(k8s_endpoints, stop_ends_a_backoff)
{
    start_server("unready");
    end_server(); /* nobody listens there */
    snprintf(server.folder, sizeof server.folder, "/tmp/k8s_endpoints.XXXXXX");
    cr_assert(mkdtemp(server.folder));
    static const char *const FILES[] = {"token", "ca.crt", "namespace"};
    for (size_t i = 0; i < 3; i++) {
        char path[96];
        snprintf(path, sizeof path, "%s/%s", server.folder, FILES[i]);
        FILE *file = fopen(path, "w");
        fputs("x", file);
        fclose(file);
    }
    struct k8s_endpoints_options options = quick_options();
    options.limits.backoff_min_ms = options.limits.backoff_max_ms = 1000 * LIMIT_S * 10;
    start(&options);
    k8s_endpoints_stop(endpoints);
    remove_folder();
}

/* ---- refusals ---- */

static void expect_refusal(const struct k8s_endpoints_options *options, enum status status,
                           const char *sentence)
{
    cr_expect_eq(k8s_endpoints_start(options, &error, &endpoints), status, "%s", error.text);
    cr_expect(strstr(error.text, sentence), "%s", error.text);
}

static void write_file(const char *name, const char *text)
{
    char path[96];
    snprintf(path, sizeof path, "%s/%s", server.folder, name);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

Test(k8s_endpoints, a_start_that_cannot_work_is_refused_with_the_file_or_the_value)
{
    snprintf(server.folder, sizeof server.folder, "/tmp/k8s_endpoints.XXXXXX");
    cr_assert(mkdtemp(server.folder));
    snprintf(server.address, sizeof server.address, "127.0.0.1:1");
    struct k8s_endpoints_options options = quick_options();
    unsetenv("KUBERNETES_SERVICE_HOST");

    options.folder = NULL;
    expect_refusal(&options, STATUS_NOT_FOUND,
                   "/var/run/secrets/kubernetes.io/serviceaccount/token");
    options.folder = server.folder;
    expect_refusal(&options, STATUS_NOT_FOUND, "/token");
    write_file("token", "two words\n");
    expect_refusal(&options, STATUS_CORRUPT, "/token holds no token");
    write_file("token", "t\r\nX: y");
    expect_refusal(&options, STATUS_CORRUPT, "/token holds no token");
    write_file("token", "abc\n");
    expect_refusal(&options, STATUS_NOT_FOUND, "/ca.crt");
    write_file("ca.crt", "");
    expect_refusal(&options, STATUS_NOT_FOUND, "/namespace");
    write_file("namespace", "No/Name");
    expect_refusal(&options, STATUS_CORRUPT, "\"No/Name\" is not a name");
    options.name_space = "a/../b";
    expect_refusal(&options, STATUS_INVALID_ARGUMENT, "namespace \"a/../b\"");
    options.name_space = "llm";
    options.port = "70000";
    expect_refusal(&options, STATUS_INVALID_ARGUMENT, "port \"70000\"");
    options.port = NULL;
    options.server = NULL;
    expect_refusal(&options, STATUS_UNSUPPORTED, "KUBERNETES_SERVICE_HOST");
    options.server = "127.0.0.1:0";
    expect_refusal(&options, STATUS_INVALID_ARGUMENT, "127.0.0.1:0");
    remove_folder();
}
