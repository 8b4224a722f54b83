/*
 * serve - router, context workers and generation workers of one machine as child processes.
 *
 *     workers start, say their ports -> router starts with their addresses -> all ready, and seen by
 *     the router -> one line; it says so of a worker that the router has not seen in SEEN_LIMIT_NS
 *     a child that ends: started again at the same ports, after a pause (revival.h); the others go on, as they do
 *     when a machine of a cluster is lost. Before all were ready, and with --restart never: as a signal, and a failure
 *     a signal: the router stops first, so that what it has placed is served, then the workers together;
 *     one that ends with a failure makes this one fail
 *     a second signal: all end at once, what they serve is cut off
 *
 * Every row that a role's table has under the same name is handed on.
 */
#include "base/build_info.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/memory_room.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/serve/child.h"
#include "cli/serve/port_hold.h"
#include "cli/serve/revival.h"
#include "cli/serve/serve_arguments.h"
#include "cli/serve/serve_key.h"
#include "ctx_worker/ctx_config.h"
#include "gen_worker/gen_config.h"
#include "kvtransfer/transport/shm_folder.h"
#include "process/memory_secrecy.h"
#include "process/ports/port_check.h"
#include "process/process.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORKERS_MAX    16 /* of one role: the bound of its row */
#define CHILDREN_MAX   (1 + 2 * WORKERS_MAX)
#define LOOK_MS        5 /* between two looks at children that start */
#define WATCH_MS       100
#define SEEN_LIMIT_NS  (10 * NS_PER_S)
#define KILL_AFTER_MS  15000 /* over the drain's delay and limit */
#define FORCED_MS      3000  /* for a child to end at once */
#define LIST_BYTES_MAX (WORKERS_MAX * ADDRESS_TEXT_MAX)

struct serve {
    struct serve_config config;
    struct config *loaded;
    const char *folder;        /* of the model */
    char work[CHILD_PATH_MAX]; /* of the ports files */
    struct serve_key key;
    int forced_by;       /* the second signal; 0: none */
    bool has_ports_file; /* written, and so to be removed */
    uint64_t began_ns;
    struct child router;
    struct child contexts[WORKERS_MAX];
    struct child generations[WORKERS_MAX];
    struct revival revivals[CHILDREN_MAX]; /* as serve_children_at counts them; so the next */
    struct port_hold holds[CHILDREN_MAX];  /* from an end to the next service */
};

/* ---- the children ---- */

/* ports: those that it had before, and gets again; NULL: any. It may be child's own. */
static enum status start(struct serve *serve, struct child *child, const char *name,
                         const struct ports *ports, struct child_arguments *arguments,
                         struct error *error)
{
    assert(serve->work[0] && strlen(name) < CHILD_NAME_MAX);
    struct ports known = ports ? *ports : (struct ports){0};
    char child_name[CHILD_NAME_MAX];
    snprintf(child_name, sizeof child_name, "%s", name);
    TRY(child_arguments_add_name(arguments, child_name));
    if (ports)
        TRY(serve_port_arguments(&serve->config, child == &serve->router, ports, arguments));
    enum status status = child_start(child, child_name, serve->work, serve->key.descriptor,
                                     arguments, error);
    child->ports = known;
    return status;
}

static enum status start_worker(struct serve *serve, struct child *child, const char *role,
                                const struct config_table *table, const struct ports *ports,
                                struct error *error)
{
    struct child_arguments arguments = {0};
    const struct child *first = child < serve->generations ? serve->contexts : serve->generations;
    assert(child >= first && child < first + WORKERS_MAX);
    char name[CHILD_NAME_MAX];
    snprintf(name, sizeof name, "%s-%u", role, (unsigned)(child - first));
    enum status status = serve_worker_arguments(&serve->config, serve->folder, role, table,
                                                &arguments);
    if (status == STATUS_OK)
        status = start(serve, child, name, ports, &arguments, error);
    child_arguments_finish(&arguments);
    return status;
}

static void serve_children_list(const struct child *children, uint32_t n,
                                char list_out[LIST_BYTES_MAX])
{
    size_t used = 0;
    list_out[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        used += (size_t)snprintf(list_out + used, LIST_BYTES_MAX - used, "%s%s", i ? "," : "",
                                 children[i].ports.control);
        assert(used < LIST_BYTES_MAX);
    }
}

static enum status start_router(struct serve *serve, const struct ports *ports, struct error *error)
{
    struct child_arguments arguments = {0};
    char contexts[LIST_BYTES_MAX];
    char generations[LIST_BYTES_MAX];
    serve_children_list(serve->contexts, serve->config.n_context_workers, contexts);
    serve_children_list(serve->generations, serve->config.n_generation_workers, generations);
    enum status status = serve_router_arguments(&serve->config, serve->folder, contexts,
                                                generations, &arguments);
    if (status == STATUS_OK)
        status = start(serve, &serve->router, "router", ports, &arguments, error);
    child_arguments_finish(&arguments);
    return status;
}

/* ---- all children ---- */

typedef bool (*child_test)(struct child *child);

static bool test_all(struct child *children, uint32_t n, child_test test)
{
    for (uint32_t i = 0; i < n; i++)
        if (!test(&children[i]))
            return false;
    return true;
}

static uint32_t serve_children_n(const struct serve *serve)
{
    return 1 + serve->config.n_context_workers + serve->config.n_generation_workers;
}

/* The router, contexts, generations. */
static struct child *serve_children_at(struct serve *serve, uint32_t index)
{
    assert(index < serve_children_n(serve));
    uint32_t n_contexts = serve->config.n_context_workers;
    return index == 0            ? &serve->router
           : index <= n_contexts ? &serve->contexts[index - 1]
                                 : &serve->generations[index - 1 - n_contexts];
}

static struct child *find_child(struct serve *serve, child_test test)
{
    for (uint32_t i = 0; i < serve_children_n(serve); i++) {
        struct child *child = serve_children_at(serve, i);
        if (child->name[0] && test(child))
            return child;
    }
    return NULL;
}

static bool serve_child_has_ended(struct child *child)
{
    return !child_is_running(child);
}

static bool serve_child_has_failed(struct child *child)
{
    return !child_is_running(child) && child->exit_status != 0;
}

/* IO_FAILED: test holds for a child that was started. */
static enum status serve_children_check(struct serve *serve, child_test test, struct error *error)
{
    const struct child *ended = find_child(serve, test);
    if (!ended)
        return STATUS_OK;
    return error_set(error, STATUS_IO_FAILED, "%s ended with status %d", ended->name,
                     ended->exit_status);
}

static bool has_ports(struct child *child)
{
    return child_has_ports(child, false);
}

static bool serve_child_is_ready(struct child *child)
{
    return child_has_ports(child, true);
}

/* Until test holds for every worker and, when it was started, the router. CANCELLED: a signal. */
static enum status wait_for_all(struct serve *serve, child_test test, struct error *error)
{
    for (;;) {
        TRY(serve_children_check(serve, serve_child_has_ended, error));
        if (test_all(serve->contexts, serve->config.n_context_workers, test) &&
            test_all(serve->generations, serve->config.n_generation_workers, test) &&
            (!serve->router.name[0] || test(&serve->router)))
            return STATUS_OK;
        if (process_wait(LOOK_MS) == PROCESS_STOP)
            return STATUS_CANCELLED;
    }
}

/* All are ready: until the router knows it of each worker, or has had the time. */
static enum status wait_until_seen(struct serve *serve, struct error *error)
{
    uint64_t until_ns = clock_now_ns() + SEEN_LIMIT_NS;
    while (serve->router.ports.unseen[0] && clock_now_ns() < until_ns) {
        TRY(serve_children_check(serve, serve_child_has_ended, error));
        if (process_wait(LOOK_MS) == PROCESS_STOP)
            return STATUS_CANCELLED;
        (void)serve_child_is_ready(&serve->router);
    }
    return STATUS_OK;
}

/* ---- start, run, stop ---- */

static enum status serve_children_start(struct serve *serve, struct error *error)
{
    for (uint32_t i = 0; i < serve->config.n_context_workers; i++)
        TRY(start_worker(serve, &serve->contexts[i], "ctx-worker", ctx_config_table(), NULL,
                         error));
    for (uint32_t i = 0; i < serve->config.n_generation_workers; i++)
        TRY(start_worker(serve, &serve->generations[i], "gen-worker", gen_config_table(), NULL,
                         error));
    TRY(wait_for_all(serve, has_ports, error));
    TRY(start_router(serve, NULL, error));
    TRY(wait_for_all(serve, serve_child_is_ready, error));
    return wait_until_seen(serve, error);
}

static void print_summary(const struct serve *serve)
{
    char contexts[LIST_BYTES_MAX];
    char generations[LIST_BYTES_MAX];
    serve_children_list(serve->contexts, serve->config.n_context_workers, contexts);
    serve_children_list(serve->generations, serve->config.n_generation_workers, generations);
    printf("kvferry %s serves %s at %s (control %s, health %s, metrics %s); context workers %s; "
           "generation workers %s; ready in %.1f s%s%s\n",
           build_version(), serve->folder, serve->router.ports.grpc, serve->router.ports.control,
           serve->router.ports.health, serve->router.ports.metrics, contexts[0] ? contexts : "none",
           generations, (double)(clock_now_ns() - serve->began_ns) / (double)NS_PER_S,
           serve->router.ports.unseen[0] ? ", without " : "", serve->router.ports.unseen);
    (void)fflush(stdout);
    clearerr(stdout); /* it serves also where nobody reads that line */
}

static enum status write_ports(struct serve *serve, struct error *error)
{
    struct ports ports = serve->router.ports;
    ports.pid = (uint32_t)getpid();
    if (!serve->config.ports_file[0])
        return STATUS_OK;
    TRY(ports_file_write(serve->config.ports_file, &ports, error));
    serve->has_ports_file = true;
    return STATUS_OK;
}

static void tell_ports(struct serve *serve)
{
    uint16_t ports[1 + CHILDREN_MAX];
    uint32_t n = 0;
    struct address address;
    struct error ignored;
    if (address_parse(serve->router.ports.grpc, &address, &ignored) == STATUS_OK)
        ports[n++] = address.port;
    for (uint32_t i = 0; i < serve_children_n(serve); i++)
        if (address_parse(serve_children_at(serve, i)->ports.control, &address, &ignored) ==
            STATUS_OK)
            ports[n++] = address.port;
    serve_key_tell_ports(&serve->key, ports, n);
}

static enum status say_ready(struct serve *serve, struct error *error)
{
    tell_ports(serve);
    TRY(write_ports(serve, error)); /* first: who waits for the line reads it next */
    if (!serve->config.quiet)
        print_summary(serve);
    return STATUS_OK;
}

/* ---- a child that ends unasked ---- */

static void serve_children_revive(struct serve *serve, struct child *child)
{
    struct error error = {0};
    enum status status;
    if (child == &serve->router)
        status = start_router(serve, &child->ports, &error);
    else if (child < serve->generations)
        status = start_worker(serve, child, "ctx-worker", ctx_config_table(), &child->ports,
                              &error);
    else
        status = start_worker(serve, child, "gen-worker", gen_config_table(), &child->ports,
                              &error);
    if (status != STATUS_OK) /* it does not run: the next look begins a longer pause */
        log_error("%s", error.text[0] ? error.text : status_text(status));
}

static void say_serves_again(struct serve *serve, const struct child *child)
{
    struct error error = {0};
    log_event(LOG_INFO, NULL, "process serves again", LOG_TEXT("process", child->name));
    /* The router's life has another incarnation. */
    if (child == &serve->router && write_ports(serve, &error) != STATUS_OK)
        log_error("%s", error.text);
}

static void begin_pause(struct serve *serve, uint32_t index, uint64_t now_ns)
{
    struct child *child = serve_children_at(serve, index);
    assert(child->pid == 0);
    uint64_t pause_ms = revival_ended(&serve->revivals[index], now_ns);
    log_event(LOG_WARN, NULL, "process ended, starts again", LOG_TEXT("process", child->name),
              LOG_U64("status", (uint64_t)child->exit_status), LOG_U64("pause_ms", pause_ms));
    child->exit_status = 0; /* told, and not what this process ends with */
    port_hold_end(&serve->holds[index]);
    port_hold_begin(&serve->holds[index], &child->ports);
}

static void look_after(struct serve *serve, uint32_t index)
{
    struct child *child = serve_children_at(serve, index);
    assert(child->name[0]); /* it was started once */
    struct revival *revival = &serve->revivals[index];
    uint64_t now_ns = clock_now_ns();
    if (child_is_running(child)) {
        if (revival->served_ns == 0 && serve_child_is_ready(child)) {
            revival_serves(revival, now_ns);
            port_hold_end(&serve->holds[index]);
            say_serves_again(serve, child);
        }
    } else if (revival_is_due(revival, now_ns)) {
        serve_children_revive(serve, child);
    } else if (!revival_waits(revival)) {
        begin_pause(serve, index, now_ns);
    }
}

static void look_after_all(struct serve *serve)
{
    for (uint32_t i = 0; i < serve_children_n(serve); i++)
        look_after(serve, i);
}

static enum status run(struct serve *serve, struct error *error)
{
    uint64_t now_ns = clock_now_ns();
    for (uint32_t i = 0; i < serve_children_n(serve); i++)
        revival_serves(&serve->revivals[i], now_ns);
    while (process_wait(WATCH_MS) == PROCESS_TIME) {
        if (serve->config.restart == SERVE_RESTART_NEVER)
            TRY(serve_children_check(serve, serve_child_has_ended, error));
        else
            look_after_all(serve);
    }
    return STATUS_OK;
}

/* ---- the end ---- */

static void stop_workers(const struct child *workers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        child_signal(&workers[i], SIGTERM);
}

/* A role that drains ends at a second signal, of another kind: two of one may come as one. One that
 * loads has nothing to finish. */
static void force_workers(struct child *workers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bool has_loaded = serve_child_is_ready(&workers[i]);
        child_signal(&workers[i], has_loaded ? SIGTERM : SIGKILL);
        child_signal(&workers[i], SIGINT);
    }
}

static void force_all(struct serve *serve, int signal_number)
{
    assert(signal_number > 0);
    serve->forced_by = signal_number;
    child_signal(&serve->router, SIGTERM);
    child_signal(&serve->router, SIGINT);
    force_workers(serve->generations, serve->config.n_generation_workers);
    force_workers(serve->contexts, serve->config.n_context_workers);
}

static uint64_t child_limit_ms(const struct serve_config *config)
{
    return config->drain_delay_ms + config->drain_limit_ms + KILL_AFTER_MS;
}

static void wait_all(struct serve *serve, struct child *children, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int signal_number;
        do {
            uint64_t limit_ms = serve->forced_by ? FORCED_MS : child_limit_ms(&serve->config);
            signal_number = child_wait(&children[i], limit_ms);
            if (signal_number)
                force_all(serve, signal_number);
        } while (signal_number);
    }
}

static void serve_children_stop(struct serve *serve)
{
    child_signal(&serve->router, SIGTERM);
    wait_all(serve, &serve->router, 1);
    stop_workers(serve->generations, serve->config.n_generation_workers);
    stop_workers(serve->contexts, serve->config.n_context_workers);
    wait_all(serve, serve->generations, serve->config.n_generation_workers);
    wait_all(serve, serve->contexts, serve->config.n_context_workers);
}

/* What a killed worker may have left in /dev/shm goes with the next folder that is opened there. */
static void sweep(const struct serve *serve)
{
    struct shm_folder folder;
    const enum kv_driver driver = serve->config.kv_transport;
    const bool has_folders = driver == KV_UNIX || driver == KV_CUDA_IPC;
    if (has_folders && shm_folder_open(&folder, NULL) == STATUS_OK)
        shm_folder_close(&folder);
}

/* The router's, which it would find only when workers have begun to load. */
static enum status check_ports(const struct serve *serve, struct error *error)
{
    const struct serve_config *config = &serve->config;
    const struct port_row rows[N_PORT_ROWS] = PORT_ROWS(config);
    const struct port_given given = {
        .has_key = true,
        .has_tls = config->tls_certificate[0],
        .has_clear_health = !config->health_tls,
        .is_insecure = config->insecure,
    };
    TRY(port_check(rows, N_PORT_ROWS, &given, error));
    return port_check_free(rows, N_PORT_ROWS, error);
}

static enum status serve_all(struct serve *serve, struct error *error)
{
    assert(serve_children_n(serve) <= CHILDREN_MAX);
    assert(serve->config.n_context_workers <= WORKERS_MAX);
    TRY(check_ports(serve, error));
    TRY(child_model_check(serve->folder, error));
    TRY(serve_rows_check(&serve->config, error));
    TRY(serve_key_open(&serve->key, serve->config.cluster_key, error));
    TRY(child_folder_make(serve->work, error));
    enum status status = serve_children_start(serve, error);
    if (status == STATUS_OK)
        status = say_ready(serve, error);
    if (status == STATUS_OK)
        status = run(serve, error);
    serve_children_stop(serve);
    for (uint32_t i = 0; i < serve_children_n(serve); i++)
        port_hold_end(&serve->holds[i]);
    if (status == STATUS_OK)
        status = serve_children_check(serve, serve_child_has_failed, error);
    if (serve->has_ports_file)
        ports_file_remove(serve->config.ports_file);
    child_folder_remove(serve->work);
    serve_key_close(&serve->key);
    sweep(serve);
    return status == STATUS_CANCELLED ? STATUS_OK : status;
}

static enum status check(const struct config *config, const void *values, struct error *error)
{
    return serve_check(values, config_positional(config, 0), error);
}

static int dry_run(const struct config_input *input, const struct serve *serve)
{
    struct error error = {0};
    enum status status = serve_plan(&serve->config, config_positional(serve->loaded, 0), stdout,
                                    &error);
    if (status == STATUS_OK) {
        puts("fits        yes");
        return EXIT_SUCCESS;
    }
    (void)fflush(stdout);
    fprintf(stderr, "%s: %s\n", input->command, error.text[0] ? error.text : status_text(status));
    return EXIT_FAILURE;
}

/* Released; what serve_main ends with. */
static int end(struct serve *serve, int exit_status)
{
    config_destroy(serve->loaded);
    free(serve);
    return exit_status;
}

/* Workers start together, and each takes its part of what there was before any of them. */
static void note_room(struct serve_config *config)
{
    struct memory_room room;
    if (config->kv_room == 0 && memory_room_read("", &room) == STATUS_OK)
        config->kv_room = room.available_bytes;
}

int serve_main(const struct config_input *input)
{
    struct serve *serve = calloc(1, sizeof *serve);
    int exit_status = EXIT_FAILURE;
    if (!serve || command_configure_checked(serve_config_table(), input, check, &serve->config,
                                            &serve->loaded, &exit_status)) {
        free(serve);
        return exit_status;
    }
    note_room(&serve->config);
    if (serve->config.dry_run)
        return end(serve, dry_run(input, serve));
    struct error error = {0};
    serve->began_ns = clock_now_ns();
    log_init("serve", serve->config.log_level, serve->config.log_format);
    process_follow_parent(serve->config.parent_pid);
    if (!serve->config.core_dumps)
        memory_secrecy_begin(false);
    serve->folder = config_positional(serve->loaded, 0);
    enum status status = serve_all(serve, &error);
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s\n", input->command,
                error.text[0] ? error.text : status_text(status));
    exit_status = serve->forced_by      ? interrupt_status(serve->forced_by)
                  : status == STATUS_OK ? EXIT_SUCCESS
                                        : EXIT_FAILURE;
    return end(serve, exit_status);
}
