/* The command line: each command does what it says, its exit status tells whether it did, a mistake
 * gets one sentence that names it, and no process or file outlives the command that made it. */

#include "base/clock.h"
#include "support/child.h"
#include "support/client.h"
#include "support/command.h"
#include "support/model_copy.h"
#include "support/ports.h"
#include "support/server.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_SERVER "127.0.0.1:1"

TestSuite(cli, .init = command_folder_make, .fini = command_folder_remove);

/* ---- what ends at once ---- */

Test(cli, version_says_what_was_built_and_found)
{
    RUN("version");
    EXPECT_OK();
    cr_assert_eq(strncmp(last_command.out, "kvferry ", 8), 0);
    unsigned major = 0, minor = 0;
    const char *ucx = strstr(last_command.out, "UCX ");
    cr_assert(ucx && sscanf(ucx, "UCX %u.%u", &major, &minor) == 2, "%s", last_command.out);
    cr_assert_geq(major, 1);
    static char first[COMMAND_TEXT_MAX];
    snprintf(first, sizeof first, "%s", last_command.out);
    RUN("--version");
    EXPECT_OK();
    cr_assert_str_eq(last_command.out, first);
    RUN("version", "now");
    expect_misused("no arguments");
}

static const char *const COMMANDS[] = {"serve",  "generate",   "ps",        "check-model",
                                       "router", "ctx-worker", "gen-worker"};
#define N_COMMANDS (sizeof COMMANDS / sizeof *COMMANDS)

Test(cli, every_command_has_help)
{
    RUN("--help");
    EXPECT_OK();
    for (size_t i = 0; i < N_COMMANDS; i++)
        EXPECT_IN(last_command.out, COMMANDS[i]);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        RUN(COMMANDS[i], "--help");
        EXPECT_OK();
        EXPECT_IN(last_command.out, COMMANDS[i]);
        EXPECT_IN(last_command.out, "--config FILE");
        cr_assert_str_empty(last_command.err);
    }
    RUN("serve", "--help");
    EXPECT_IN(last_command.out, "--kv-block-tokens");
}

Test(cli, an_unknown_command_or_flag_is_named)
{
    RUN("server");
    expect_misused("no command \"server\"; did you mean serve?");
    cr_assert_str_empty(last_command.out);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        RUN(COMMANDS[i], "--kv-blocs", "16");
        expect_misused("--kv-blocs");
        EXPECT_IN(last_command.err, COMMANDS[i]);
    }
    RUN("serve", KVFERRY_DEMO_MODEL, "--kv-block-tokens", "7");
    expect_misused("--kv-block-tokens");
    RUN("ps", "now");
    expect_misused("now");
}

Test(cli, printed_configuration_says_where_from_and_loads_again)
{
    RUN("serve", KVFERRY_DEMO_MODEL, "--kv-block-tokens", "32", "--print-config");
    EXPECT_OK();
    EXPECT_IN(last_command.out, "kv_block_tokens: 32");
    EXPECT_IN(last_command.out, "flag --kv-block-tokens");
    EXPECT_IN(last_command.out, "default");
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("printed.yaml"));
    write_file(path, last_command.out, strlen(last_command.out));
    RUN("serve", KVFERRY_DEMO_MODEL, "--config", path, "--print-config");
    EXPECT_OK();
    EXPECT_IN(last_command.out, "kv_block_tokens: 32");
    EXPECT_IN(last_command.out, "printed.yaml:");
}

Test(cli, check_config_names_file_and_line)
{
    static const struct {
        const char *yaml;
        const char *part; /* NULL: good */
    } CASES[] = {
        {"kv_block_tokens: 32\nthreads: 2\n", NULL},
        {"threads: 2\nkv_block_tokens: 7\n", "c.yaml:2"},
        {"# nothing\n\nkv_blok_tokens: 16\n", "c.yaml:3"},
        {"threads: 2\nthreads: 3\n", "c.yaml:2"},
        {"threads: [1, 2]\n", "c.yaml:1"},
        {"kv_transport: pigeon\n", "c.yaml:1"},
        {"kv_unproven_max: 3\nkv_proof_ms: 500ms\n", NULL},
        {"kv_proof_ms: 2s\nkv_unproven_max: 0\n", "c.yaml:2"},
        {"kv_unproven_max: 64\nkv_proof_ms: 50ms\n", "c.yaml:2"},
        {"threads: 2\n drain: {\n", "c.yaml:"},
    };
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("c.yaml"));
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        write_file(path, CASES[i].yaml, strlen(CASES[i].yaml));
        RUN("serve", KVFERRY_DEMO_MODEL, "--config", path, "--check-config");
        if (CASES[i].part)
            expect_misused(CASES[i].part);
        else
            EXPECT_OK();
    }
    RUN("serve", KVFERRY_DEMO_MODEL, "--config", in_folder("none.yaml"), "--check-config");
    expect_misused("none.yaml");
}

/* ---- check-model ---- */

Test(cli, check_model_describes_a_good_folder)
{
    RUN("check-model", KVFERRY_DEMO_MODEL);
    EXPECT_OK();
    EXPECT_IN(last_command.out, "context         2048 tokens\n");
    EXPECT_IN(last_command.out, "layers          5 of ");
    EXPECT_IN(last_command.out, "head            the embeddings (tied)\n");
    EXPECT_IN(last_command.out, "tokenizer ");
    EXPECT_IN(last_command.out, "\ngood\n");
    const char *digest = strstr(last_command.out, "digest ");
    cr_assert_not_null(digest);
    char line[80];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(digest, "\n"), digest);
    model_copy_make();
    RUN("check-model", in_folder("model"));
    EXPECT_OK();
    EXPECT_IN(last_command.out, line); /* of the contents, not of the place */
}

static void expect_bad_model(const char *part)
{
    RUN("check-model", in_folder("model"));
    expect_refused(part);
    cr_assert_null(strstr(last_command.out, "good"), "%s", last_command.out);
}

Test(cli, check_model_says_what_is_wrong)
{
    RUN("check-model", in_folder("nowhere"));
    expect_refused("nowhere");
    RUN("check-model");
    expect_misused("MODEL");

    model_copy_make();
    model_copy_file("model.safetensors", 1 << 20);
    expect_bad_model("model.safetensors");
    model_copy_file("model.safetensors", 4);
    expect_bad_model("model.safetensors");
    model_copy_file("model.safetensors", 64 << 20);
    model_copy_file("tokenizer.json", 1000);
    expect_bad_model("tokenizer.json");
    model_copy_file("tokenizer.json", 16 << 20);
    model_copy_file("config.json", 20);
    expect_bad_model("config.json");
}

/* ---- serve ---- */

static void start_server(struct child *server)
{
    server_start(server,
                 (const char *const[]){"--kv-digest", "--prefill-chunk-tokens", "64", NULL});
}

/* The processes of a server, from `ps`. */
struct members {
    uint32_t n;
    char roles[8][16];
    pid_t pids[8];
};

static void list_members(const struct child *server, struct members *members)
{
    RUN("ps", "--control", address_of(server->control));
    EXPECT_OK();
    members->n = 0;
    char *rest = last_command.out, *line = strsep(&rest, "\n");
    cr_assert_eq(strncmp(line, "ROLE ", 5), 0);
    while ((line = strsep(&rest, "\n")) && line[0]) {
        char state[16];
        cr_assert_lt(members->n, 8);
        cr_assert_eq(sscanf(line, "%15s %*s %15s %d", members->roles[members->n], state,
                            &members->pids[members->n]),
                     3, "%s", line);
        cr_assert_str_eq(state, "ready");
        members->n++;
    }
}

static bool is_alive(pid_t pid)
{
    char path[40], state = 'Z';
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
        state = 'Z';
    fclose(file);
    return state != 'Z' && state != 'X';
}

/* What the server made is gone: its processes (which it reaps) and its files. */
static void expect_nothing_left(const struct members *members)
{
    for (uint32_t i = 0; i < members->n; i++)
        cr_assert_not(is_alive(members->pids[i]), "%s %d lives", members->roles[i],
                      (int)members->pids[i]);
    expect_no_temporaries();
    cr_assert_neq(access(in_folder("serve.ports"), F_OK), 0, "the ports file is left");
}

Test(cli, serve_starts_three_processes_and_sigterm_ends_them)
{
    struct child server;
    struct members members;
    start_server(&server);
    list_members(&server, &members);
    cr_assert_eq(members.n, 3);
    cr_assert_str_eq(members.roles[0], "router");
    bool has_context = false, has_generation = false;
    for (uint32_t i = 0; i < 3; i++) {
        cr_assert(is_alive(members.pids[i]));
        has_context |= strcmp(members.roles[i], "ctx-worker") == 0;
        has_generation |= strcmp(members.roles[i], "gen-worker") == 0;
    }
    cr_assert(has_context && has_generation);
    child_stop(&server);
    expect_nothing_left(&members);
    RUN("ps", "--control", address_of(server.control));
    expect_refused(address_of(server.control));
}

/* What serve itself wrote names that child. */
static void expect_named(const char *role)
{
    FILE *log = fopen(in_folder("serve.log"), "r");
    cr_assert_not_null(log);
    char line[1024];
    bool is_named = false;
    while (fgets(line, sizeof line, log))
        is_named |= strncmp(line, "kvferry serve: ", 15) == 0 && strstr(line, role);
    fclose(log);
    cr_assert(is_named, "serve does not say that %s ended", role);
}

static void expect_fails(struct child *server, const char *role)
{
    int status = child_wait(server, 60000);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE, "%s died: wait status %d",
              role, status);
    expect_named(role);
}

static pid_t pid_of(const struct members *members, const char *role)
{
    for (uint32_t i = 0; i < members->n; i++)
        if (strcmp(members->roles[i], role) == 0)
            return members->pids[i];
    cr_assert_fail("no %s", role);
    return 0;
}

static void wait_until_gone(pid_t pid)
{
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    while (is_alive(pid)) {
        cr_assert_lt(clock_now_ns(), until_ns, "%d still lives", (int)pid);
        (void)poll(NULL, 0, 5);
    }
}

Test(cli, a_child_that_dies_stops_the_others_and_fails_serve_where_it_is_not_to_restart_them)
{
    static const char *const ROLES[] = {"router", "ctx-worker", "gen-worker"};
    for (uint32_t r = 0; r < 3; r++) {
        struct child server;
        struct members members;
        server_start(&server, (const char *const[]){"--restart", "never", NULL});
        list_members(&server, &members);
        cr_assert_eq(kill(pid_of(&members, ROLES[r]), SIGKILL), 0);
        expect_fails(&server, ROLES[r]);
        expect_nothing_left(&members);
        unlink(in_folder("serve.log"));
    }
}

Test(cli, a_child_that_fails_to_stop_cleanly_fails_serve)
{
    struct child server;
    struct members members;
    start_server(&server);
    list_members(&server, &members);
    pid_t stuck = pid_of(&members, "gen-worker");
    cr_assert_eq(kill(stuck, SIGSTOP), 0);
    child_signal(&server, SIGTERM);
    wait_until_gone(pid_of(&members, "router"));
    wait_until_gone(pid_of(&members, "ctx-worker"));
    cr_assert_eq(kill(stuck, SIGKILL), 0);
    expect_fails(&server, "gen-worker");
    expect_nothing_left(&members);
}

Test(cli, children_end_when_serve_is_killed)
{
    struct child server;
    struct members members;
    start_server(&server);
    list_members(&server, &members);
    child_kill(&server);
    for (uint32_t i = 0; i < members.n; i++)
        wait_until_gone(members.pids[i]);
}

/* The demo model with a line feed more in tokenizer.json. */
static void make_other_tokenizer(void)
{
    model_copy_make();
    FILE *file = fopen(in_folder("model/tokenizer.json"), "a");
    cr_assert(file && putc('\n', file) != EOF && fclose(file) == 0);
}

Test(cli, a_worker_with_another_tokenizer_is_not_used_and_ps_says_why)
{
    struct child worker, router;
    child_start(&worker, command_folder, "worker",
                (const char *const[]){"gen-worker", KVFERRY_DEMO_MODEL, WORKER_PORTS, "--threads",
                                      "1", NULL});
    char control[40];
    snprintf(control, sizeof control, "%s", address_of(worker.control));
    child_start(&router, command_folder, "router",
                (const char *const[]){"router", KVFERRY_DEMO_MODEL, ROUTER_PORTS,
                                      "--generation-workers", control, "--wait-max", "0", NULL});
    make_other_tokenizer();
    snprintf(worker.arguments[1], sizeof worker.arguments[1], "%s", in_folder("model"));
    child_restart(&worker);
    uint64_t until_ns = clock_now_ns() + COMMAND_LIMIT_NS;
    do {
        cr_assert_lt(clock_now_ns(), until_ns, "never judged: %s", last_command.out);
        RUN("ps", "--control", address_of(router.control));
        EXPECT_OK();
    } while (!strstr(last_command.out, "the router does not use it: its tokenizer is "));
    RUN("generate", "--server", address_of(router.grpc), "And God saw");
    expect_refused("no generation worker is ready");
    child_stop(&router);
    child_stop(&worker);
}

Test(cli, serve_refuses_what_cannot_work)
{
    RUN("serve");
    expect_misused("MODEL");
    RUN("serve", in_folder("nowhere"), ROUTER_PORTS, "--log-level", "error");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    EXPECT_IN(last_command.err, "nowhere");
    expect_no_temporaries();
}

Test(cli, a_model_folder_may_have_the_name_of_a_flag)
{
    cr_assert_eq(chdir(command_folder), 0);
    cr_assert_eq(symlink(KVFERRY_DEMO_MODEL, "-x"), 0);
    RUN("generate", "--model", "-x", "--max-tokens", "2", "In the beginning");
    EXPECT_OK();
    RUN("serve", "--check-config", "--", "-x");
    EXPECT_OK();
}

/* ---- generate ---- */

/* The number before "unit" in the row of that name among the figures. */
static double figure(const char *name, const char *unit)
{
    char row[32], word[32];
    double value = -1;
    snprintf(row, sizeof row, "  %s ", name);
    const char *at = strstr(last_command.err, row);
    cr_assert_not_null(at, "no row %s in:\n%s", name, last_command.err);
    cr_assert_eq(sscanf(at + strlen(row), "%lf %31s", &value, word), 2, "%s", at);
    cr_assert_str_eq(word, unit, "%s", at);
    return value;
}

static void write_long_prompt(const char *path)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    for (int verse = 1; verse <= 40; verse++)
        fprintf(file, "%d And the children of Israel did according to all these words.\n", verse);
    fclose(file);
}

Test(cli, generate_prints_text_here_and_figures_there)
{
    struct child server;
    char text[COMMAND_TEXT_MAX];
    start_server(&server);
    const char *grpc = address_of(server.grpc);
    RUN("generate", "--server", grpc, "--max-tokens", "12", "--temperature", "0",
        "In the beginning");
    EXPECT_OK();
    cr_assert_gt(strlen(last_command.out), 12);
    cr_assert_str_empty(last_command.err);
    snprintf(text, sizeof text, "%s", last_command.out);

    RUN("generate", "--server", grpc, "--max-tokens", "12", "--temperature", "0", "--echo",
        "In the beginning");
    EXPECT_OK();
    cr_assert_eq(strncmp(last_command.out, "In the beginning", 16), 0);
    cr_assert_str_eq(last_command.out + 16, text);

    const char *path = in_folder("prompt.txt");
    write_long_prompt(path);
    RUN("generate", "--server", grpc, "--max-tokens", "12", "--verbose", "--seed", "3",
        "--ignore-eos", "--prompt-file", path);
    EXPECT_OK();
    EXPECT_IN(last_command.err, " bytes over am-tcp, ");
    EXPECT_IN(last_command.err, ", 12 generated");
    cr_assert_gt(figure("KV", "bytes"), 0);
    cr_assert_gt(figure("first token", "ms"), 0);
    cr_assert_geq(figure("total", "ms"), figure("first token", "ms"));
    cr_assert_gt(figure("speed", "tokens/s"), 0);
    snprintf(text, sizeof text, "%s", last_command.out);

    const char *const from_input[] = {"generate", "--server", grpc,           "--max-tokens",  "12",
                                      "--seed",   "3",        "--ignore-eos", "--prompt-file", "-",
                                      NULL};
    command_run(path, from_input);
    EXPECT_OK();
    cr_assert_str_eq(last_command.out, text);
    child_stop(&server);
}

/* Nearly even draws, until the token of that byte is among them; then the same as the API gives it. */
Test(cli, generate_reads_and_prints_nul_as_any_other_character)
{
    struct child server;
    char seed[8], prompt[160];
    const char *end;
    static char text[COMMAND_TEXT_MAX];
    snprintf(prompt, sizeof prompt, "%s", in_folder("nul.txt"));
    write_file(prompt, "And\0God", 7);
    start_server(&server);
    uint64_t n = 0;
    do {
        cr_assert_lt(++n, 40, "never drawn");
        snprintf(seed, sizeof seed, "%u", (unsigned)n);
        RUN("generate", "--server", address_of(server.grpc), "--max-tokens", "1000",
            "--temperature", "100", "--seed", seed, "--ignore-eos", "--echo", "--prompt-file",
            prompt);
        EXPECT_OK();
        cr_assert_arr_eq(last_command.out, "And\0God", 7);
        end = memchr(last_command.out + 7, '\0', last_command.out_bytes - 7);
    } while (!end);
    size_t n_text = last_command.out_bytes - 7;
    memcpy(text, last_command.out + 7, n_text);

    struct generation generation = {.text = "And\0God",
                                    .n_text = 7,
                                    .max_tokens = 1000,
                                    .temperature = 100,
                                    .seed = n,
                                    .ignore_eos = true};
    struct client *client = client_create(server.grpc);
    client_run(client, &generation);
    client_destroy(client);
    cr_assert_geq(n_text, generation.n_text_out, "but for a line feed at its end");
    cr_assert_leq(n_text, generation.n_text_out + 1);
    cr_assert_arr_eq(text, generation.text_out, generation.n_text_out);
    cr_assert_gt(generation.n_text_out, 1000);
    child_stop(&server);
}

Test(cli, generate_stops_before_the_stop_string)
{
    struct child server;
    char text[COMMAND_TEXT_MAX], stop[16];
    start_server(&server);
    const char *grpc = address_of(server.grpc);
    RUN("generate", "--server", grpc, "--max-tokens", "40", "--temperature", "0",
        "In the beginning");
    EXPECT_OK();
    snprintf(text, sizeof text, "%s", last_command.out);
    snprintf(stop, sizeof stop, "%.5s", text + 11);
    size_t n = (size_t)(strstr(text, stop) - text);
    RUN("generate", "--server", grpc, "--max-tokens", "40", "--temperature", "0", "--stop", stop,
        "In the beginning");
    EXPECT_OK();
    cr_assert_eq(strncmp(last_command.out, text, n), 0, "%s", last_command.out);
    cr_assert_null(strstr(last_command.out, stop));
    cr_assert_leq(strlen(last_command.out), n + 1, "text and a line feed: %s", last_command.out);
    child_stop(&server);
}

Test(cli, generate_says_why_it_failed)
{
    RUN("generate", "--server", NO_SERVER, "--deadline-ms", "20s", "In the beginning");
    expect_refused("nothing listens at " NO_SERVER
                   ": is the server running? `kvferry serve MODEL`");
    cr_assert_str_empty(last_command.out, "nothing came");
    RUN("generate", "--server", NO_SERVER);
    expect_refused("prompt");
    RUN("generate", "--server", NO_SERVER, "--prompt-file", in_folder("none.txt"));
    expect_refused("none.txt");
    RUN("generate", "--model", in_folder("nowhere"), "In the beginning");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    EXPECT_IN(last_command.err, "nowhere");
    expect_no_temporaries();
}

Test(cli, a_refused_request_shows_the_servers_sentence)
{
    struct child server;
    start_server(&server);
    RUN("generate", "--server", address_of(server.grpc), "--max-tokens", "5000",
        "In the beginning");
    expect_refused("PROMPT_TOO_LONG");
    EXPECT_IN(last_command.err, "2048");
    RUN("generate", "--server", address_of(server.grpc), "--request-id", "\x7f", "And God");
    expect_refused("INVALID_ARGUMENT");
    child_stop(&server);
}

Test(cli, generate_with_a_model_serves_itself_and_leaves_nothing)
{
    char text[COMMAND_TEXT_MAX];
    const char *path = in_folder("prompt.txt");
    write_long_prompt(path);
    RUN("generate", "--model", KVFERRY_DEMO_MODEL, "--max-tokens", "8", "--seed", "5", "--verbose",
        "--expect-handover", "--prompt-file", path);
    EXPECT_OK();
    cr_assert_gt(strlen(last_command.out), 1);
    cr_assert_gt(figure("KV", "bytes"), 0);
    expect_no_temporaries();
    snprintf(text, sizeof text, "%s", last_command.out);

    struct child server;
    start_server(&server);
    RUN("generate", "--server", address_of(server.grpc), "--max-tokens", "8", "--seed", "5",
        "--prompt-file", path);
    EXPECT_OK();
    cr_assert_str_eq(last_command.out, text, "the same request elsewhere");
    child_stop(&server);
}
