/*
 * serve - starts router, context workers and generation workers on one machine as child processes.
 *
 *     workers start, report ports -> router starts with their addresses -> all ready, and seen by
 *     the router -> one line; it says so of a worker that the router has not seen in SEEN_LIMIT_NS
 *     a child ends: it is started again at the same ports, after a pause (revival.h); the others continue,
 *     as if a machine of a cluster was lost. Before all were ready, and with --restart never: as a signal, and a failure
 *     a signal: the router stops first, so that placed requests are served, then all workers together;
 *     if a child fails, serve fails
 *     a second signal: all end at once, and open requests are cut off
 *
 * Every row that a role's table has under the same name is passed on.
 */
#include "base/build_info.h"
#include "base/clock.h"
#include "base/log/log.h"
#include "base/memory_room.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/serve/serve_arguments.h"
#include "cli/serve/serve_parts.h"
#include "kvtransfer/transport/shm_folder.h"
#include "process/memory_secrecy.h"
#include "process/ports/port_check.h"
#include "process/process.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define WATCH_MS 100

/* ---- all are ready ---- */

static void print_summary(const struct serve *serve)
{
    char contexts[LIST_BYTES_MAX];
    char generations[LIST_BYTES_MAX];
    serve_children_list(serve->contexts, serve->config.n_context_workers, contexts);
    serve_children_list(serve->generations, serve->config.n_generation_workers, generations);
    printf("kvferry %s serves %s at %s%s%s%s%s (control %s, health %s, metrics %s); context "
           "workers %s; "
           "generation workers %s; ready in %.1f s%s%s\n",
           build_version(), serve->folder, serve->router.ports.grpc,
           serve->router.ports.http[0] ? " and http://" : "", serve->router.ports.http,
           serve->router.ports.engine[0] ? ", to gateways at " : "", serve->router.ports.engine,
           serve->router.ports.control, serve->router.ports.health, serve->router.ports.metrics,
           contexts[0] ? contexts : "none", generations,
           (double)(clock_now_ns() - serve->began_ns) / (double)NS_PER_S,
           serve->router.ports.unseen[0] ? ", without " : "", serve->router.ports.unseen);
    (void)fflush(stdout);
    clearerr(stdout); /* it also serves without a reader of that line */
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
    TRY(write_ports(serve, error)); /* first: readers of the line open the file next */
    if (!serve->config.quiet)
        print_summary(serve);
    return STATUS_OK;
}

/* ---- a child that ends unexpectedly ---- */

static void say_serves_again(struct serve *serve, const struct child *child)
{
    struct error error = {0};
    log_event(LOG_INFO, NULL, "process serves again", LOG_TEXT("process", child->name));
    /* The restarted router has another incarnation. */
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
    child->exit_status = 0; /* reported; it does not become serve's exit status */
    port_hold_end(&serve->holds[index]);
    port_hold_begin(&serve->holds[index], &child->ports);
}

static void look_after(struct serve *serve, uint32_t index)
{
    struct child *child = serve_children_at(serve, index);
    assert(child->name[0]); /* it was started before */
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

/* The next folder that is opened in /dev/shm removes what a killed worker left there. */
static void sweep(const struct serve *serve)
{
    struct shm_folder folder;
    const enum kv_driver driver = serve->config.kv_transport;
    const bool has_folders = driver == KV_UNIX || driver == KV_CUDA_IPC;
    if (has_folders && shm_folder_open(&folder, NULL) == STATUS_OK)
        shm_folder_close(&folder);
}

/* Checks the router's files now: the router would check them only after the workers have begun to
 * load. */
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

/* Releases all; returns the exit status of serve_main. */
static int end(struct serve *serve, int exit_status)
{
    config_destroy(serve->loaded);
    free(serve);
    return exit_status;
}

/* Workers start together, and each gets its part of the memory that was free before. */
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
