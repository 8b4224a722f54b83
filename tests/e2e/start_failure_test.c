/* Whatever keeps a process from starting: it ends with a failure and says which key or file and what
 * value, and it is not out of memory unless it is. */

#include "support/child.h"
#include "support/command.h"
#include "support/model_copy.h"
#include "support/ports.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Any free port, and lines that are not quoted, unless a flag says otherwise. */
static void enter(void)
{
    command_folder_make();
    setenv("KVFERRY_GRPC_ADDRESS", "127.0.0.1:0", 1);
    setenv("KVFERRY_CONTROL_ADDRESS", "127.0.0.1:0", 1);
    setenv("KVFERRY_HEALTH_ADDRESS", "127.0.0.1:0", 1);
    setenv("KVFERRY_METRICS_ADDRESS", "127.0.0.1:0", 1);
    setenv("KVFERRY_HTTP_ADDRESS", "127.0.0.1:0", 1);
    setenv("KVFERRY_LOG_FORMAT", "human", 1);
}

TestSuite(start_failure, .init = enter, .fini = command_folder_remove);

static const char *const WORKERS[] = {"ctx-worker", "gen-worker"};
static const char *const ROLES[] = {"ctx-worker", "gen-worker", "router"};

/* What the process wrote to either stream; what serve's children write is among it. */
static void expect_said(const char *part)
{
    cr_expect_eq(last_command.exit_status, EXIT_FAILURE, "exit status %d, not for %s",
                 last_command.exit_status, part);
    cr_expect(strstr(last_command.err, part) || strstr(last_command.out, part),
              "\"%s\" is not in:\n%s%s", part, last_command.out, last_command.err);
    cr_expect_null(strstr(last_command.err, "out of memory"), "%s: %s", part, last_command.err);
    cr_expect_null(strstr(last_command.out, "out of memory"), "%s: %s", part, last_command.out);
}

/* ---- weights ---- */

Test(start_failure, a_weight_that_is_no_number_is_named)
{
    model_copy_make();
    model_copy_set("model.layers.1.mlp.up_proj.weight", 300, NAN);
    for (int i = 0; i < 2; i++) {
        RUN(WORKERS[i], in_folder("model"));
        expect_said(
            "model.safetensors: tensor model.layers.1.mlp.up_proj.weight is nan at [1, 44], "
            "weights must be finite");
    }
    RUN("serve", in_folder("model"));
    expect_said("up_proj.weight is nan at [1, 44]");
}

/* ---- KVFERRY_CPU, KVFERRY_ATTENTION ---- */

Test(start_failure, an_unknown_set_of_kernels_is_named)
{
    setenv("KVFERRY_CPU", "quantum", 1);
    for (int i = 0; i < 2; i++) {
        RUN(WORKERS[i], KVFERRY_DEMO_MODEL);
        expect_said("no kernels are called 'quantum' (cpu_kernels, KVFERRY_CPU): reference, ");
    }
    RUN("serve", KVFERRY_DEMO_MODEL);
    expect_said("'quantum' (cpu_kernels, KVFERRY_CPU)");
    setenv("KVFERRY_CPU", "", 1);
    setenv("KVFERRY_ATTENTION", "quantum", 1);
    for (int i = 0; i < 2; i++) {
        RUN(WORKERS[i], KVFERRY_DEMO_MODEL);
        expect_said(
            "no attention back end is called 'quantum' (attention_kernels, KVFERRY_ATTENTION)");
    }
}

/* A set whose instructions this machine lacks; NULL: it has all. */
static const char *absent_set(void)
{
    static const char *const SETS[][2] = {{"amx_bf16", " amx_bf16"},
                                          {"avx512_fp16", " avx512_fp16"},
                                          {"avx512_bf16", " avx512_bf16"},
                                          {"avx2", " avx2 "}};
    static char flags[1 << 16];
    FILE *file = fopen("/proc/cpuinfo", "r");
    cr_assert_not_null(file);
    flags[fread(flags, 1, sizeof flags - 1, file)] = '\0';
    fclose(file);
    for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++)
        if (!strstr(flags, SETS[i][1]))
            return SETS[i][0];
    return NULL;
}

Test(start_failure, a_set_that_this_machine_lacks_is_named)
{
    const char *set = absent_set();
    char part[96];
    if (!set)
        return; /* an unknown one is refused above */
    snprintf(part, sizeof part,
             "this machine cannot run the kernels '%s' (cpu_kernels, KVFERRY_CPU)", set);
    setenv("KVFERRY_CPU", set, 1);
    for (int i = 0; i < 2; i++) {
        RUN(WORKERS[i], KVFERRY_DEMO_MODEL);
        expect_said(part);
    }
}

/* ---- addresses ---- */

/* A port of the loopback that somebody else listens on, until the test ends. */
static const char *taken_address(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(listener, (struct sockaddr *)&address, bytes), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&address, &bytes), 0);
    return address_of(ntohs(address.sin_port));
}

static const char *const PORT_FLAGS[][2] = {{"--control-address", "control_address"},
                                            {"--health-address", "health_address"},
                                            {"--metrics-address", "metrics_address"},
                                            {"--grpc-address", "grpc_address"},
                                            {"--http-address", "http_address"}};

/* Before the model: there is none. */
static void expect_taken(const char *role, int flag, const char *taken)
{
    char sentence[96];
    RUN(role, in_folder("nowhere"), PORT_FLAGS[flag][0], taken);
    snprintf(sentence, sizeof sentence, "%s %s: Address already in use\n", PORT_FLAGS[flag][1],
             taken);
    expect_said(sentence);
    cr_expect_null(strstr(last_command.err, "nowhere"), "%s", last_command.err);
}

Test(start_failure, an_address_in_use_is_named_before_anything_is_loaded)
{
    char taken[32];
    snprintf(taken, sizeof taken, "%s", taken_address());
    for (int flag = 0; flag < 5; flag++) {
        for (int role = 0; role < 3 && flag < 3; role++)
            expect_taken(ROLES[role], flag, taken);
        expect_taken("serve", flag, taken);
        expect_refused(taken); /* one line: no child was started */
        expect_no_temporaries();
    }
    expect_taken("router", 3, taken);
    expect_taken("router", 4, taken);
}

/* One line, and no child's: nothing was started. */
static void expect_serve_refuses(const char *flag, const char *value, const char *part)
{
    RUN("serve", KVFERRY_DEMO_MODEL, "--n-context-workers", "0", flag, value);
    expect_refused(part);
    expect_no_temporaries();
}

Test(start_failure, serve_finds_what_its_children_would_find)
{
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("nowhere/ports"));
    RUN("serve", in_folder("nowhere"));
    expect_refused("nowhere: No such file or directory");
    expect_serve_refuses("--grpc-address", "0.0.0.0:0",
                         "grpc_address \"0.0.0.0:0\" is not a loopback address and has no TLS");
    expect_serve_refuses("--ports-file", path, "nowhere/ports: No such file or directory");
    expect_serve_refuses("--no-local-prefill", "--pin", "no worker would compute prompts");
}

/* A port that is drawn is not tried, and the ports file has the ones that are bound for good. */
Test(start_failure, ports_that_were_tried_are_bound_for_good_afterwards)
{
    char address[32], path[160];
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof any;
    cr_assert_eq(bind(listener, (struct sockaddr *)&any, bytes), 0);
    cr_assert_eq(getsockname(listener, (struct sockaddr *)&any, &bytes), 0);
    close(listener);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(any.sin_port));
    struct child server;
    child_start(&server, command_folder, "serve",
                (const char *const[]){"serve", KVFERRY_DEMO_MODEL, "--grpc-address", address,
                                      "--http-address", "127.0.0.1:0", NULL});
    cr_assert_eq(server.grpc, ntohs(any.sin_port));
    snprintf(path, sizeof path, "%s", address_of(server.control));
    RUN("ps", "--server", address);
    EXPECT_OK();
    RUN("ps", "--server", path);
    EXPECT_OK();
    child_stop(&server);
}

/* It has begun: its signals wait, and its first line is there. */
static void wait_for_line(const struct command *command)
{
    struct stat written = {0};
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (fstat(command->err_fd, &written) == 0 && written.st_size == 0) {
        cr_assert_lt(clock_now_ns(), until_ns, "it says nothing");
        (void)poll(NULL, 0, 1);
    }
}

/* Not only when it has loaded all; which a small model may be, by then. */
Test(start_failure, a_worker_that_loads_can_be_told_to_stop)
{
    bool is_seen = false;
    char ports[160];
    snprintf(ports, sizeof ports, "%s", in_folder("ports"));
    for (int i = 0; i < 100 && !is_seen; i++) {
        command_start(
            &last_command, NULL,
            (const char *const[]){"gen-worker", KVFERRY_DEMO_MODEL, "--ports-file", ports, NULL});
        wait_for_line(&last_command);
        cr_assert_eq(kill(last_command.pid, SIGTERM), 0);
        command_finish(&last_command);
        cr_assert_eq(last_command.exit_status, 0, "it fails: %s", last_command.err);
        is_seen = strstr(last_command.err, "asked to stop while the model loads");
        cr_assert_neq(access(ports, F_OK), 0, "its ports file is left");
    }
    cr_assert(is_seen, "never while it loads");
}

Test(start_failure, a_bad_address_is_named)
{
    static const char *const ADDRESSES[][2] = {
        {"127.0.0.1", "no port"},
        {"127.0.0.1:70000", "is not a port"},
        {"[::1:50", "no closing ]"},
        {"0.0.0.0:0", "--insecure"},
    };
    for (size_t i = 0; i < sizeof ADDRESSES / sizeof *ADDRESSES; i++) {
        RUN("router", KVFERRY_DEMO_MODEL, "--grpc-address", ADDRESSES[i][0]);
        expect_said(ADDRESSES[i][0]);
        expect_said(ADDRESSES[i][1]);
        RUN("ctx-worker", KVFERRY_DEMO_MODEL, "--control-address", ADDRESSES[i][0]);
        expect_said(ADDRESSES[i][0]);
    }
    RUN("router", KVFERRY_DEMO_MODEL, "--generation-workers", "nonsense");
    expect_said("address \"nonsense\": no port");
    RUN("router", KVFERRY_DEMO_MODEL, "--generation-workers", "127.0.0.1:1,127.0.0.1:1");
    expect_said("127.0.0.1:1\" is named twice");
}

/* ---- files ---- */

/* Each role that reads the file, with something else in its place. */
static void expect_no_file(const char *name, bool is_read_by_router, bool is_read_by_worker)
{
    char path[200];
    snprintf(path, sizeof path, "%s/model/%s", command_folder, name);
    cr_assert_eq(mkfifo(path, 0600), 0);
    for (int role = 0; role < 3; role++) {
        if (role < 2 ? !is_read_by_worker : !is_read_by_router)
            continue;
        RUN(ROLES[role], in_folder("model"));
        expect_said(name);
        expect_said("not a regular file");
    }
    unlink(path);
    cr_assert_eq(symlink(name, path), 0); /* to itself */
    for (int role = 0; role < 3; role++) {
        if (role < 2 ? !is_read_by_worker : !is_read_by_router)
            continue;
        RUN(ROLES[role], in_folder("model"));
        expect_said(name);
        expect_said("Too many levels of symbolic links");
    }
    unlink(path);
}

Test(start_failure, a_model_folder_that_cannot_be_read_is_named, .timeout = 120)
{
    for (int role = 0; role < 3; role++) {
        RUN(ROLES[role], in_folder("nowhere"));
        expect_said("nowhere");
    }
    model_copy_make();
    static const struct {
        const char *name;
        bool is_routers, is_workers;
    } FILES[] = {{"config.json", false, true},
                 {"generation_config.json", true, true},
                 {"model.safetensors", false, true},
                 {"tokenizer.json", true, true},
                 {"tokenizer_config.json", true, false}};
    for (size_t i = 0; i < sizeof FILES / sizeof *FILES; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/model/%s", command_folder, FILES[i].name);
        unlink(path);
        expect_no_file(FILES[i].name, FILES[i].is_routers, FILES[i].is_workers);
        model_copy_file(FILES[i].name, 64 << 20);
    }
}

Test(start_failure, a_config_file_that_is_none_is_named, .timeout = 120)
{
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("fifo.yaml"));
    cr_assert_eq(mkfifo(path, 0600), 0);
    for (int role = 0; role < 3; role++) {
        RUN(ROLES[role], KVFERRY_DEMO_MODEL, "--config", path);
        expect_misused("fifo.yaml is not a regular file");
        RUN(ROLES[role], KVFERRY_DEMO_MODEL, "--config", "/dev/zero");
        expect_misused("/dev/zero is not a regular file");
    }
    RUN("serve", KVFERRY_DEMO_MODEL, "--config", path);
    expect_misused("fifo.yaml is not a regular file");
    snprintf(path, sizeof path, "%s", in_folder("c.yaml"));
    write_file(path, "kv_blok_tokens: 16\n", 19);
    for (int role = 0; role < 3; role++) {
        RUN(ROLES[role], KVFERRY_DEMO_MODEL, "--config", path);
        expect_misused("c.yaml:1: kv_blok_tokens: unknown key");
    }
}

/* Refused before anything listens: no line says where. */
Test(start_failure, a_file_that_serve_did_not_write_stays)
{
    char path[192];
    snprintf(path, sizeof path, "%s/mine.json", command_folder);
    FILE *file = fopen(path, "w");
    cr_assert(file);
    cr_assert_geq(fputs("mine", file), 0);
    cr_assert_eq(fclose(file), 0);
    RUN("serve", KVFERRY_DEMO_MODEL, "--kv-memory", "1", ROUTER_PORTS, "--ports-file", path);
    cr_assert_neq(last_command.exit_status, 0);
    cr_assert_eq(access(path, R_OK), 0, "it is gone");
}

Test(start_failure, a_ports_file_that_cannot_be_written_is_named)
{
    char fifo[160], link[160], folder[160];
    struct stat found;
    snprintf(fifo, sizeof fifo, "%s", in_folder("ports.fifo"));
    snprintf(link, sizeof link, "%s", in_folder("ports.link"));
    snprintf(folder, sizeof folder, "%s", in_folder("none/ports"));
    cr_assert_eq(mkfifo(fifo, 0600), 0);
    cr_assert_eq(symlink("/nowhere/at/all", link), 0);
    for (int role = 0; role < 3; role++) {
        RUN(ROLES[role], KVFERRY_DEMO_MODEL, "--ports-file", fifo);
        expect_said("ports.fifo exists and is no regular file");
        RUN(ROLES[role], KVFERRY_DEMO_MODEL, "--ports-file", link);
        expect_said("ports.link exists and is a link");
        RUN(ROLES[role], KVFERRY_DEMO_MODEL, "--ports-file", folder);
        expect_said("none/ports");
    }
    RUN("serve", KVFERRY_DEMO_MODEL, "--ports-file", fifo);
    expect_refused("ports.fifo exists and is no regular file");
    cr_assert(lstat(fifo, &found) == 0 && S_ISFIFO(found.st_mode), "it was replaced or removed");
    cr_assert(lstat(link, &found) == 0 && S_ISLNK(found.st_mode), "it was replaced or removed");
}

/* ---- sizes ---- */

Test(start_failure, a_size_that_does_not_fit_is_named)
{
    for (int i = 0; i < 2; i++) {
        RUN(WORKERS[i], KVFERRY_DEMO_MODEL, "--kv-memory", "9000T");
        expect_said("kv_memory of 9895604649984000 bytes makes ");
        RUN(WORKERS[i], KVFERRY_DEMO_MODEL, "--kv-memory", "1");
        expect_said("kv_memory of 1 bytes makes 0 blocks");
        RUN(WORKERS[i], KVFERRY_DEMO_MODEL, "--max-context-tokens", "5000");
        expect_said("max_context_tokens is 5000; the model supports 2048");
        RUN(WORKERS[i], KVFERRY_DEMO_MODEL, "--kv-block-tokens", "128", "--prefill-chunk-tokens",
            "64");
        expect_said("prefill_chunk_tokens is 64");
        RUN(WORKERS[i], KVFERRY_DEMO_MODEL, "--ucx-net-devices", "quantum0");
        expect_said("quantum0");
    }
}

/* More than an address space has. The sanitizers' allocator ends the process where malloc says no. */
#ifndef KVFERRY_SANITIZED
Test(start_failure, a_pool_larger_than_memory_is_named)
{
    for (int i = 0; i < 2; i++) {
        RUN(WORKERS[i], KVFERRY_DEMO_MODEL, "--kv-block-tokens", "128", "--kv-memory", "500T");
        expect_said("MiB of KV blocks");
    }
}
#endif
