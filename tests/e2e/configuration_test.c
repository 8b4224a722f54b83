/* Flags, variables and files: what a start refuses --check-config refuses, what serve was told does not
 * mislead its children, a slip is answered with what may have been meant, and the help shows all. */

#include "support/child.h"
#include "support/command.h"
#include "support/model_copy.h"
#include "support/ports.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

TestSuite(configuration, .init = command_folder_make, .fini = command_folder_remove);

#define ANY_PORTS ROUTER_PORTS, "--threads", "1"

/* ---- serve and its children ---- */

static uint32_t count(const char *text, const char *part)
{
    uint32_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        n++;
    return n;
}

Test(configuration, serve_takes_a_file_by_its_variable_and_hands_no_child_that_file)
{
    static const char FILE_TEXT[] = "n_context_workers: 2\nquiet: yes\ngrpc_address: 127.0.0.1:0\n"
                                    "http_address: 127.0.0.1:0\nthreads: 1\nkv_memory: 1.5Mi\n";
    struct child server;
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("serve.yaml"));
    write_file(path, FILE_TEXT, strlen(FILE_TEXT));
    cr_assert_eq(setenv("KVFERRY_CONFIG", path, 1), 0);
    /* Rows of serve by the environment, too: one that a worker has as well, one that it reads otherwise. */
    cr_assert_eq(setenv("KVFERRY_HEALTH_ADDRESS", "127.0.0.1:0", 1), 0);
    cr_assert_eq(setenv("KVFERRY_N_GENERATION_WORKERS", "1", 1), 0);
    child_start(&server, command_folder, "serve",
                (const char *const[]){"serve", KVFERRY_DEMO_MODEL, "--control-address",
                                      "127.0.0.1:0", "--metrics-address", "127.0.0.1:0", NULL});
    cr_assert_eq(unsetenv("KVFERRY_CONFIG"), 0);
    RUN("ps", "--control", address_of(server.control));
    EXPECT_OK();
    cr_assert_eq(count(last_command.out, "\nctx-worker"), 2, "%s", last_command.out);
    cr_assert_eq(count(last_command.out, "\ngen-worker"), 1, "%s", last_command.out);
    child_stop(&server);
}

/* generate has a table of its own, and so has the serve that it starts. */
Test(configuration, generate_takes_a_file_and_its_server_does_not)
{
    static const char FILE_TEXT[] = "max_tokens: 3\nignore_eos: yes\n";
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("generate.yaml"));
    write_file(path, FILE_TEXT, strlen(FILE_TEXT));
    cr_assert_eq(setenv("KVFERRY_CONFIG", path, 1), 0);
    RUN("generate", "--model", KVFERRY_DEMO_MODEL, "--verbose", "In the beginning");
    EXPECT_OK();
    EXPECT_IN(last_command.err, ", 3 generated");
}

/* A name that fits no buffer; what is not one's own is not searched for ever. */
Test(configuration, a_variable_of_any_length_is_warned_of)
{
    char name[400] = "KVFERRY_";
    memset(name + strlen(name), 'A', 300);
    cr_assert_eq(setenv(name, "1", 1), 0);
    RUN("ps", "--help");
    EXPECT_OK();
    RUN("serve", KVFERRY_DEMO_MODEL, "--check-config", "--strict-environment");
    expect_misused("KVFERRY_AAAA");
}

/* What the children inherit is judged with their rows. */
Test(configuration, serve_checks_the_variables_that_its_roles_read)
{
    cr_assert_eq(setenv("KVFERRY_QUEUE_MAX", "abc", 1), 0);
    RUN("serve", KVFERRY_DEMO_MODEL, "--check-config");
    cr_assert_neq(last_command.exit_status, 0);
    EXPECT_IN(last_command.err, "KVFERRY_QUEUE_MAX");
}

/* ---- --check-config ---- */

struct refusal {
    const char *words[10];
    const char *part;
};

static const struct refusal REFUSALS[] = {
    {{"router", KVFERRY_DEMO_MODEL, "--grpc-address", "127.0.0.1"},
     "grpc_address: address \"127.0.0.1\": no port"},
    {{"router", KVFERRY_DEMO_MODEL, "--control-address", "0.0.0.0:0"}, "needs a cluster_key"},
    {{"ctx-worker", KVFERRY_DEMO_MODEL, "--control-address", "0.0.0.0:0", "--insecure"},
     "needs a cluster_key, even with --insecure"},
    {{"gen-worker", KVFERRY_DEMO_MODEL, "--cluster-key", KVFERRY_SOURCE_DIR "/.gitignore"},
     ".gitignore is not a cluster key: one line"},
    {{"serve", KVFERRY_DEMO_MODEL, "--cluster-key", "/nowhere"}, "/nowhere: No such file"},
    {{"router", KVFERRY_DEMO_MODEL, "--health-address", ":0"},
     "health_address \":0\" is not a loopback address"},
    {{"router", KVFERRY_DEMO_MODEL, "--metrics-address", "unix:/tmp/metrics"},
     "metrics_address \"unix:/tmp/metrics\" is a unix socket"},
    {{"gen-worker", KVFERRY_DEMO_MODEL, "--metrics-address", "unix:/tmp/metrics:80"},
     "metrics_address \"unix:/tmp/metrics:80\" is a unix socket"},
    {{"router", KVFERRY_DEMO_MODEL, "--grpc-address", "localhost:17000", "--control-address",
      "127.0.0.1:17000"},
     "grpc_address localhost:17000 and control_address 127.0.0.1:17000 are the same port"},
    {{"router", KVFERRY_DEMO_MODEL, "--generation-workers", "nonsense"},
     "generation_workers: address \"nonsense\": no port"},
    {{"router", KVFERRY_DEMO_MODEL, "--context-workers", "a:1,b:2,a:1"},
     "context_workers: worker \"a:1\" is named twice"},
    {{"router", "nowhere"}, "nowhere"},
    {{"router", KVFERRY_DEMO_MODEL, "--ports-file", "no/such/folder/ports"},
     "ports file no/such/folder/ports: No such file or directory"},
    {{"gen-worker", "nowhere"}, "nowhere"},
    {{"gen-worker", KVFERRY_DEMO_MODEL "/config.json"}, "config.json"},
    {{"gen-worker", KVFERRY_DEMO_MODEL, "--prefill-chunk-tokens", "24"},
     "prefill_chunk_tokens is 24; it must be a multiple of kv_block_tokens, 16"},
    {{"ctx-worker", KVFERRY_DEMO_MODEL, "--prefill-batch-tokens", "8"},
     "prefill_batch_tokens is 8; it must be at least"},
    {{"ctx-worker", KVFERRY_DEMO_MODEL, "--kv-block-tokens", "24", "--prefill-chunk-tokens", "48"},
     "power of two"},
    {{"ctx-worker", KVFERRY_DEMO_MODEL, "--max-context-tokens", "100000"},
     "max_context_tokens is 100000; the model supports 2048"},
    {{"gen-worker", KVFERRY_DEMO_MODEL, "--kv-memory", "1K"}, "kv_memory of 1024 bytes"},
    {{"gen-worker", KVFERRY_DEMO_MODEL, "--cpu-kernels", "quantum"},
     "no kernels are called 'quantum' (cpu_kernels, KVFERRY_CPU): reference, "},
    {{"gen-worker", KVFERRY_DEMO_MODEL, "--attention-kernels", "quantum"},
     "no attention back end is called 'quantum' (attention_kernels, KVFERRY_ATTENTION): "
     "reference, "},
    {{"gen-worker", KVFERRY_DEMO_MODEL, "--device", "gpu"},
     "device is \"gpu\", expected cpu, cuda:N or auto"},
    {{"ctx-worker", KVFERRY_DEMO_MODEL, "--device", "cuda:"}, "device is \"cuda:\""},
    {{"gen-worker", KVFERRY_DEMO_MODEL, "--device", "cuda:0", "--cpu-kernels", "scalar"},
     "cpu_kernels is \"scalar\": device cuda:0 computes with its own kernels"},
    {{"ctx-worker", KVFERRY_DEMO_MODEL, "--device", "cuda:0", "--kv-transport", "shm-read"},
     "kv_transport shm-read shares the host's memory, but device cuda:0 has its own"},
    {{"gen-worker", KVFERRY_DEMO_MODEL, "--kv-transport", "cuda-ipc"},
     "kv_transport cuda-ipc maps memory of a GPU, but device cpu has none"},
    {{"serve", KVFERRY_DEMO_MODEL, "--kv-transport", "cuda-ipc"},
     "kv_transport cuda-ipc maps memory of a GPU, but device cpu has none"},
    {{"serve", KVFERRY_DEMO_MODEL, "--device", "tpu:0"}, "device is \"tpu:0\""},
    {{"ctx-worker", KVFERRY_DEMO_MODEL, "--ucx-net-devices", "nodevice0"},
     "there is no network device 'nodevice0'"},
    {{"ctx-worker", KVFERRY_DEMO_MODEL, "--ucx-port-range", "many"},
     "ucx_port_range \"many\" is not a range of ports"},
    {{"serve", "nowhere"}, "nowhere"},
    {{"serve", KVFERRY_DEMO_MODEL, "--prefill-chunk-tokens", "24"}, "prefill_chunk_tokens is 24"},
    {{"serve", KVFERRY_DEMO_MODEL, "--cpu-kernels", "quantum"}, "'quantum'"},
    {{"serve", KVFERRY_DEMO_MODEL, "--grpc-address", "0.0.0.0:0"}, "--insecure"},
    {{"serve", KVFERRY_DEMO_MODEL, "--grpc-address", "http://127.0.0.1:0"},
     "grpc_address: address \"http://127.0.0.1:0\": leave \"http://\" out"},
    {{"serve", KVFERRY_DEMO_MODEL, "--device", "cuda:63"}, "device cuda:63: "},
    {{"ctx-worker", KVFERRY_DEMO_MODEL, "--device", "cuda:63"}, "device cuda:63: "},
    {{"serve", KVFERRY_DEMO_MODEL, "--ports-file", "no/such/folder/ports"}, "no/such/folder"},
    {{"serve", KVFERRY_DEMO_MODEL, "--metrics-address", "unix:/tmp/metrics"},
     "metrics_address \"unix:/tmp/metrics\" is a unix socket"},
    {{"serve", KVFERRY_DEMO_MODEL, "--insecure", "--health-address", "[::]:17000",
      "--metrics-address", ":17000"},
     "health_address [::]:17000 and metrics_address :17000 are the same port"},
};
#define N_REFUSALS (sizeof REFUSALS / sizeof *REFUSALS)

static void use_any_ports(void)
{
    cr_assert_eq(setenv("KVFERRY_GRPC_ADDRESS", "127.0.0.1:0", 1), 0);
    cr_assert_eq(setenv("KVFERRY_HTTP_ADDRESS", "127.0.0.1:0", 1), 0);
    cr_assert_eq(setenv("KVFERRY_CONTROL_ADDRESS", "127.0.0.1:0", 1), 0);
    cr_assert_eq(setenv("KVFERRY_HEALTH_ADDRESS", "127.0.0.1:0", 1), 0);
    cr_assert_eq(setenv("KVFERRY_METRICS_ADDRESS", "127.0.0.1:0", 1), 0);
    cr_assert_eq(setenv("KVFERRY_LOG_FORMAT", "human", 1), 0);
}

Test(configuration, check_config_refuses_what_a_start_refuses)
{
    use_any_ports();
    for (size_t i = 0; i < N_REFUSALS; i++) {
        const char *words[12];
        size_t n = 0;
        for (; REFUSALS[i].words[n]; n++)
            words[n] = REFUSALS[i].words[n];
        words[n] = NULL;
        command_run(NULL, words);
        cr_assert_eq(last_command.exit_status, EXIT_FAILURE, "a start with %s %s: %s%s", words[0],
                     words[n - 1], last_command.out, last_command.err);
        EXPECT_IN(last_command.err, REFUSALS[i].part);
        words[n] = "--check-config";
        words[n + 1] = NULL;
        command_run(NULL, words);
        expect_refused(REFUSALS[i].part);
        cr_assert_str_empty(last_command.out);
    }
}

/* Taken ports do not count, nor do ports that cannot be known. */
Test(configuration, check_config_passes_what_starts)
{
    RUN("serve", KVFERRY_DEMO_MODEL, "--kv-memory", "1.5Gi", "--cpu-kernels", "scalar",
        "--grpc-address", ":50051", "--insecure", "--check-config");
    EXPECT_OK();
    cr_assert_str_eq(last_command.out, "the configuration is valid\n");
    cr_assert_str_empty(last_command.err);
    RUN("generate", "--check-config", "hello");
    EXPECT_OK();
}

Test(configuration, check_config_names_a_spoilt_model)
{
    model_copy_make();
    model_copy_file("model.safetensors", 4096);
    RUN("serve", in_folder("model"), "--check-config");
    expect_refused("model.safetensors");
    model_copy_file("model.safetensors", 64 << 20);
    model_copy_file("tokenizer.json", 1000);
    RUN("router", in_folder("model"), "--check-config");
    expect_refused("tokenizer.json");
}

/* ---- variables that nobody knows ---- */

Test(configuration, an_unknown_variable_is_warned_of_and_strictness_stops)
{
    cr_assert_eq(setenv("KVFERRY_KV_BLOK_TOKENS", "32", 1), 0);
    cr_assert_eq(setenv("KVFERRY_PREFIXES_MAX", "1000", 1), 0); /* the router's */
    cr_assert_eq(setenv("KVFERRY_CPU", "", 1), 0);
    cr_assert_eq(setenv("KVFERRY_SERVICE_HOST", "10.0.0.1", 1), 0);
    cr_assert_eq(setenv("KVFERRY_PORT", "tcp://10.0.0.1:50051", 1), 0);
    cr_assert_eq(setenv("KVFERRY_PORT_50051_TCP", "tcp://10.0.0.1:50051", 1), 0);
    static const char WARNING[] = "no command knows the variable KVFERRY_KV_BLOK_TOKENS; did you "
                                  "mean KVFERRY_KV_BLOCK_TOKENS?";
    RUN("serve", KVFERRY_DEMO_MODEL, "--check-config");
    EXPECT_OK();
    cr_assert_eq(count(last_command.err, "KVFERRY_"), 2, "once: %s", last_command.err);
    EXPECT_IN(last_command.err, WARNING);
    RUN("gen-worker", KVFERRY_DEMO_MODEL, "--check-config", "--log-format", "json");
    EXPECT_OK();
    EXPECT_IN(last_command.err, "\"level\":\"warn\"");
    EXPECT_IN(last_command.err, WARNING);
    static const char *const ROLES[] = {"serve", "router", "ctx-worker", "gen-worker"};
    for (int i = 0; i < 4; i++) {
        RUN(ROLES[i], KVFERRY_DEMO_MODEL, "--strict-environment");
        expect_misused(WARNING);
    }
    cr_assert_eq(unsetenv("KVFERRY_KV_BLOK_TOKENS"), 0);
    RUN("serve", KVFERRY_DEMO_MODEL, "--check-config", "--strict-environment");
    EXPECT_OK();
    cr_assert_str_empty(last_command.err);
}

Test(configuration, a_variable_that_only_looks_like_a_service_link_is_warned_of)
{
    cr_assert_eq(setenv("KVFERRY_SERVICE_HOST", "10.0.0.1", 1), 0);
    cr_assert_eq(setenv("KVFERRY_PORT", "tcp://10.0.0.1:50051", 1), 0);
    cr_assert_eq(setenv("KVFERRY_METRICS_PORT", "9401", 1), 0);
    RUN("router", KVFERRY_DEMO_MODEL, "--strict-environment");
    expect_misused("no command knows the variable KVFERRY_METRICS_PORT; did you mean "
                   "KVFERRY_METRICS_ADDRESS?");
}

/* ---- one file for several commands ---- */

Test(configuration, one_file_serves_a_server_and_its_clients)
{
    static const char TEXT[] = "kv_memory: 8M\ntemperature: 0\nthreads: 1\nmax_tokens: 3\n"
                               "stop: [END, STOP]\ndry_run: yes\nhealth_tls: yes\n";
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("c.yaml"));
    write_file(path, TEXT, sizeof TEXT - 1);
    RUN("serve", KVFERRY_DEMO_MODEL, "--config", path, "--check-config");
    EXPECT_OK();
    EXPECT_IN(last_command.err, "c.yaml:2: temperature: ignored, it is for other commands");
    EXPECT_IN(last_command.err, "c.yaml:5: stop: ignored");
    RUN("serve", KVFERRY_DEMO_MODEL, "--config", path, "--print-config");
    EXPECT_IN(last_command.out, "kv_memory: 8M");
    cr_assert_null(strstr(last_command.out, "temperature"));
    RUN("generate", "--config", path, "--print-config");
    EXPECT_IN(last_command.out, "max_tokens: 3");
    RUN("generate", "--config", path, "--model", KVFERRY_DEMO_MODEL, "--verbose",
        "In the beginning");
    EXPECT_OK();
    EXPECT_IN(last_command.err, "3 generated");
}

/* Its own server is of the file, too. */
Test(configuration, generate_hands_its_file_to_the_server_that_it_starts)
{
    static const char TEXT[] = "served_model_name: ours\nkv_memory: 1K\n";
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("c.yaml"));
    write_file(path, TEXT, sizeof TEXT - 1);
    RUN("generate", "--config", path, "--model", KVFERRY_DEMO_MODEL, "In the beginning");
    cr_assert_eq(last_command.exit_status, EXIT_FAILURE);
    EXPECT_IN(last_command.err, "kv_memory of 1024 bytes");
}

Test(configuration, a_key_that_nobody_has_is_refused_in_such_a_file)
{
    char path[160];
    snprintf(path, sizeof path, "%s", in_folder("c.yaml"));
    write_file(path, "temprature: 0\n", 14);
    RUN("serve", KVFERRY_DEMO_MODEL, "--config", path);
    expect_misused("c.yaml:1: temprature: unknown key");
    RUN("generate", "--config", path, "hello");
    expect_misused("c.yaml:1: temprature: unknown key; did you mean temperature?");
    write_file(path, "requests_per_second: 5\n", 23);
    RUN("serve", KVFERRY_DEMO_MODEL, "--config", path);
    expect_misused("requests_per_second: unknown key"); /* a tenant's, in its file */
}

/* ---- slips ---- */

Test(configuration, a_slip_is_answered_with_what_may_have_been_meant)
{
    char path[160];
    RUN("serve", KVFERRY_DEMO_MODEL, "--context-workers", "2");
    expect_misused("unknown flag --context-workers; did you mean --n-context-workers?");
    RUN("serve", KVFERRY_DEMO_MODEL, "--max-modle-len=5");
    expect_misused("did you mean --max-model-len?");
    RUN("genrate");
    expect_misused("no command \"genrate\"; did you mean generate?");
    RUN("help", "sreve");
    expect_misused("did you mean serve?");
    snprintf(path, sizeof path, "%s", in_folder("c.yaml"));
    write_file(path, "generation_workers: 2\n", 22);
    RUN("serve", KVFERRY_DEMO_MODEL, "--config", path);
    expect_misused("generation_workers: unknown key; did you mean n_generation_workers?");
    RUN("serve", KVFERRY_DEMO_MODEL, "--kv-digest", "yes");
    expect_misused("write --kv-digest=yes, not --kv-digest yes");
    RUN("serve", "--kv-digest", "yes");
    expect_misused("write --kv-digest=yes, not --kv-digest yes");
    RUN("serve", KVFERRY_DEMO_MODEL, "--check-config=maybe");
    expect_misused("--check-config: \"maybe\" is not true or false");
    RUN("serve", KVFERRY_DEMO_MODEL, "--check-config", "--strict-environment=no");
    EXPECT_OK();
    RUN("generate", "--server", "http://127.0.0.1:50051", "hello");
    expect_misused("--server: address \"http://127.0.0.1:50051\": leave \"http://\" out");
    RUN("ps", "--server", "https://127.0.0.1:50051");
    expect_misused("leave \"https://\" out and give only HOST:PORT; other settings turn on TLS");
    RUN("serve", KVFERRY_DEMO_MODEL, "--kv-memory", "1.5X");
    expect_misused("--kv-memory: \"1.5X\" is not a size");
}

/* ---- help ---- */

Test(configuration, help_is_to_be_had_in_every_way)
{
    static const char *const COMMANDS[] = {"serve",   "generate", "ps",         "check-model",
                                           "version", "router",   "ctx-worker", "gen-worker"};
    static char text[COMMAND_TEXT_MAX];
    RUN("help");
    EXPECT_OK();
    snprintf(text, sizeof text, "%s", last_command.out);
    EXPECT_IN(text, "Examples\n");
    RUN("-h");
    EXPECT_OK();
    cr_assert_str_eq(last_command.out, text);
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        RUN("help", COMMANDS[i]);
        EXPECT_OK();
        snprintf(text, sizeof text, "%s", last_command.out);
        EXPECT_IN(text, COMMANDS[i]);
        cr_assert_null(strstr(text, "parent-pid"), "internal: %s", text);
        cr_assert_null(strstr(text, "\nFlags\n"), "%s has rows without a group:\n%s", COMMANDS[i],
                       text);
        RUN(COMMANDS[i], "-h");
        EXPECT_OK();
        cr_assert_str_eq(last_command.out, text);
        RUN(COMMANDS[i], "--help");
        EXPECT_OK();
        cr_assert_str_eq(last_command.out, text);
    }
    command_run(NULL, (const char *const[]){NULL});
    cr_assert_eq(last_command.exit_status, 2);
    EXPECT_IN(last_command.err, "usage: kvferry COMMAND");
}

/* ---- repeated --stop ---- */

static void generate_with_stops(const char *server, const char *first, const char *second)
{
    RUN("generate", "--server", server, "--max-tokens", "40", "--temperature", "0", "--stop", first,
        "--stop", second, "In the beginning");
    EXPECT_OK();
}

Test(configuration, generate_stops_at_whichever_text_comes_first)
{
    struct child server;
    static char text[COMMAND_TEXT_MAX];
    char late[12], early[12];
    child_start(&server, command_folder, "serve",
                (const char *const[]){"serve", KVFERRY_DEMO_MODEL, ANY_PORTS, NULL});
    const char *grpc = address_of(server.grpc);
    RUN("generate", "--server", grpc, "--max-tokens", "40", "--temperature", "0",
        "In the beginning");
    EXPECT_OK();
    snprintf(text, sizeof text, "%s", last_command.out);
    cr_assert_gt(strlen(text), 60);
    snprintf(late, sizeof late, "%.8s", text + 50);
    snprintf(early, sizeof early, "%.8s", text + 20);
    int n = (int)(strstr(text, early) - text);
    cr_assert_gt(strstr(text, late), text + n);
    generate_with_stops(grpc, late, early);
    cr_assert_leq((int)strlen(last_command.out), n + 1, "%s", last_command.out);
    cr_assert_eq(strncmp(last_command.out, text, (size_t)n), 0, "%s", last_command.out);
    generate_with_stops(grpc, early, late);
    cr_assert_leq((int)strlen(last_command.out), n + 1, "%s", last_command.out);
    generate_with_stops(grpc, "no such text", late);
    cr_assert_gt((int)strlen(last_command.out), n + 1, "%s", last_command.out);
    cr_assert_null(strstr(last_command.out, late));
    child_stop(&server);
}

/* ---- kernels ---- */

static void expect_kernels(const char *variable, const char *flag, const char *kernels)
{
    struct child worker;
    char line[64], name[32];
    static int n_started;
    snprintf(name, sizeof name, "worker%d", n_started++);
    snprintf(line, sizeof line, " kernels %s", kernels);
    cr_assert_eq(setenv("KVFERRY_CPU", variable, 1), 0);
    child_start(&worker, command_folder, name,
                (const char *const[]){"gen-worker", KVFERRY_DEMO_MODEL, WORKER_PORTS,
                                      "--cpu-kernels", flag, "--attention-kernels", "scalar",
                                      NULL});
    cr_assert(child_log_wait(&worker, line), "no \"%s\"", line);
    child_stop(&worker);
}

Test(configuration, the_row_for_kernels_comes_before_the_old_variable)
{
    expect_kernels("", "reference", "reference");
    expect_kernels("scalar", "reference", "reference");
    expect_kernels("scalar", "", "scalar");
}

/* ---- addresses ---- */

static bool can_connect(int family, uint16_t port)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address = {.v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)}};
    address.v6.sin6_addr = in6addr_loopback;
    if (family == AF_INET)
        address.v4 = (struct sockaddr_in){.sin_family = AF_INET,
                                          .sin_port = htons(port),
                                          .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_connected = fd >= 0 && connect(fd, &address.any, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return is_connected;
}

static bool has_ipv6_loopback(void)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return has;
}

static const char *new_key(const char *name)
{
    static char path[160];
    snprintf(path, sizeof path, "%s/%s", command_folder, name);
    RUN("key", path);
    EXPECT_OK();
    return path;
}

Test(configuration, a_port_without_a_host_listens_everywhere)
{
    struct child router;
    child_start_unready(&router, command_folder, "router",
                        (const char *const[]){"router", KVFERRY_DEMO_MODEL, "--grpc-address", ":0",
                                              "--control-address", ":0", "--health-address", ":0",
                                              "--metrics-address", ":0", "--insecure",
                                              "--cluster-key", new_key("router.key"), NULL});
    const uint16_t ports[] = {router.grpc, router.control, router.health, router.metrics};
    for (int i = 0; i < 4; i++) {
        cr_assert(can_connect(AF_INET, ports[i]), "port %d by IPv4", i);
        cr_assert(!has_ipv6_loopback() || can_connect(AF_INET6, ports[i]), "port %d by IPv6", i);
    }
    child_stop(&router);
}

/* ---- version ---- */

Test(configuration, version_says_commit_libraries_and_kernels)
{
    static const char *const PARTS[] = {", commit ",   "\ncompiler ", "gRPC core ", "UCX ",
                                        "protobuf-c ", "\nkernels ",  " scalar ",   "\nattention "};
    cr_assert_eq(setenv("KVFERRY_CPU", "", 1), 0);
    RUN("version");
    EXPECT_OK();
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        EXPECT_IN(last_command.out, PARTS[i]);
    cr_assert_eq(count(last_command.out, "(chosen: "), 2, "%s", last_command.out);
    cr_assert_eq(setenv("KVFERRY_CPU", "scalar", 1), 0);
    RUN("version");
    EXPECT_IN(last_command.out, "(chosen: scalar)");
    cr_assert_eq(setenv("KVFERRY_CPU", "quantum", 1), 0);
    RUN("version");
    EXPECT_OK();
    EXPECT_IN(last_command.out, "no kernels are called 'quantum'");
}
