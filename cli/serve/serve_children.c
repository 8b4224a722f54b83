/* serve_children - starts, awaits and stops the children of serve: see serve_parts.h. */
#include "base/clock.h"
#include "base/log/log.h"
#include "cli/serve/serve_arguments.h"
#include "cli/serve/serve_parts.h"
#include "ctx_worker/ctx_config.h"
#include "gen_worker/gen_config.h"
#include "process/process.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define LOOK_MS       5 /* between two looks at children that start */
#define SEEN_LIMIT_NS (10 * NS_PER_S)
#define KILL_AFTER_MS 15000 /* added to the drain's delay and limit */
#define FORCED_MS     3000  /* after a second signal */

/* ---- the children ---- */

/* ports: reuse these, from its earlier start; NULL: any. It may be child's own struct. */
static enum status start(struct serve *serve, struct child *child, const char *name,
                         const struct ports *ports, struct child_arguments *arguments,
                         struct error *error)
{
    assert(child && serve->work[0] && strlen(name) < CHILD_NAME_MAX);
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
        status = child_arguments_add(&arguments, "--kv-disk-part", name);
    if (status == STATUS_OK)
        status = start(serve, child, name, ports, &arguments, error);
    child_arguments_finish(&arguments);
    return status;
}

void serve_children_list(const struct child *children, uint32_t n, char list_out[LIST_BYTES_MAX])
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

static bool test_all(struct child *children, uint32_t n, child_test test)
{
    for (uint32_t i = 0; i < n; i++)
        if (!test(&children[i]))
            return false;
    return true;
}

uint32_t serve_children_n(const struct serve *serve)
{
    return 1 + serve->config.n_context_workers + serve->config.n_generation_workers;
}

/* The router, context workers, generation workers. */
struct child *serve_children_at(struct serve *serve, uint32_t index)
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

bool serve_child_has_ended(struct child *child)
{
    return !child_is_running(child);
}

bool serve_child_has_failed(struct child *child)
{
    return !child_is_running(child) && child->exit_status != 0;
}

/* IO_FAILED: test is true for a started child. */
enum status serve_children_check(struct serve *serve, child_test test, struct error *error)
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

bool serve_child_is_ready(struct child *child)
{
    return child_has_ports(child, true);
}

/* Waits until test is true for every worker and, if started, the router. CANCELLED: a signal. */
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

/* All are ready: waits until the router knows that of each worker, or the time is over. */
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

enum status serve_children_start(struct serve *serve, struct error *error)
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

void serve_children_revive(struct serve *serve, struct child *child)
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
    if (status != STATUS_OK) /* it did not start: the next look begins a longer pause */
        log_error("%s", error.text[0] ? error.text : status_text(status));
}

/* ---- the end ---- */

static void stop_workers(const struct child *workers, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        child_signal(&workers[i], SIGTERM);
}

/* A role that drains ends at a second signal. It is of another kind, because two of one kind may
 * arrive as one. A role that loads has no requests to finish. */
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

void serve_children_stop(struct serve *serve)
{
    child_signal(&serve->router, SIGTERM);
    wait_all(serve, &serve->router, 1);
    stop_workers(serve->generations, serve->config.n_generation_workers);
    stop_workers(serve->contexts, serve->config.n_context_workers);
    wait_all(serve, serve->generations, serve->config.n_generation_workers);
    wait_all(serve, serve->contexts, serve->config.n_context_workers);
}
