#include "cluster.h"

#include "base/clock.h"
#include "ports.h"
#include "tests/base/support/folder.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define QUIET_LIMIT_NS (30 * NS_PER_S)
#define READY_LIMIT_NS (60 * NS_PER_S)

struct arguments {
    const char *list[ARGUMENTS_MAX];
    uint32_t n;
};

static void add(struct arguments *arguments, const char *word)
{
    cr_assert_lt(arguments->n + 1, ARGUMENTS_MAX);
    arguments->list[arguments->n++] = word;
    arguments->list[arguments->n] = NULL;
}

static void add_all(struct arguments *arguments, const char *const *words)
{
    for (; words && *words; words++)
        add(arguments, *words);
}

/* A worker that is to be started. */
struct place {
    const char *role;
    uint32_t index;
    const char *binary; /* NULL: the product's */
    const char *model;
};

static const char *model_of(const struct cluster_options *options)
{
    return options->model ? options->model : KVFERRY_DEMO_MODEL;
}

static void begin_worker(struct cluster *cluster, struct child *child, const struct place *place,
                         const char *const *const *flags)
{
    struct arguments arguments = {{NULL}, 0};
    add(&arguments, place->role);
    add(&arguments, place->model);
    static const char *const addresses[] = {WORKER_PORTS, "--threads",   "1", "--log-format",
                                            "json",       "--kv-digest", NULL};
    add_all(&arguments, addresses);
    for (uint32_t i = 0; i < 3; i++)
        add_all(&arguments, flags[i]);
    char name[32];
    snprintf(name, sizeof name, "%s-%u", place->role, place->index);
    child_begin_binary(child, place->binary ? place->binary : KVFERRY_BINARY, cluster->folder, name,
                       arguments.list);
}

static void list_workers(char text_out[256], const struct child *children, uint32_t n)
{
    text_out[0] = '\0';
    for (uint32_t i = 0; i < n; i++) {
        char one[40];
        snprintf(one, sizeof one, "%s127.0.0.1:%u", i ? "," : "", children[i].control);
        strncat(text_out, one, 255 - strlen(text_out));
    }
}

static void start_router(struct cluster *cluster, const struct cluster_options *options)
{
    char contexts[256], generations[256];
    list_workers(contexts, cluster->contexts, cluster->n_contexts);
    list_workers(generations, cluster->generations, cluster->n_generations);
    struct arguments arguments = {{NULL}, 0};
    add(&arguments, "router");
    add(&arguments, model_of(options));
    static const char *const addresses[] = {ROUTER_PORTS, "--log-format", "json", NULL};
    add_all(&arguments, addresses);
    add(&arguments, "--generation-workers");
    add(&arguments, generations);
    if (cluster->n_contexts > 0) {
        add(&arguments, "--context-workers");
        add(&arguments, contexts);
    }
    add_all(&arguments, options->router);
    (options->is_cold ? child_start_unready : child_start)(&cluster->router, cluster->folder,
                                                           "router", arguments.list);
}

void cluster_start(struct cluster *cluster, const struct cluster_options *options)
{
    memset(cluster, 0, sizeof *cluster);
    folder_make(cluster->folder, sizeof cluster->folder, "e2e");
    cluster->n_contexts = options->n_contexts;
    cluster->n_generations = options->n_generations;
    for (uint32_t i = 0; i < cluster->n_contexts; i++)
        begin_worker(cluster, &cluster->contexts[i],
                     &(struct place){"ctx-worker", i, i == 0 ? options->first_context_binary : NULL,
                                     model_of(options)},
                     (const char *const *const[]){options->both, options->context,
                                                  i == 0 ? options->first_context : NULL});
    for (uint32_t i = 0; options->is_in_turn && i < cluster->n_contexts; i++)
        child_await_ready(&cluster->contexts[i]);
    for (uint32_t i = 0; i < cluster->n_generations; i++)
        begin_worker(cluster, &cluster->generations[i],
                     &(struct place){"gen-worker", i,
                                     i == 0 ? options->first_generation_binary : NULL,
                                     model_of(options)},
                     (const char *const *const[]){options->both, options->generation,
                                                  i == 0 ? options->first_generation : NULL});
    for (uint32_t i = 0; !options->is_in_turn && i < cluster->n_contexts; i++)
        child_await_ready(&cluster->contexts[i]);
    for (uint32_t i = 0; i < cluster->n_generations; i++)
        child_await_ready(&cluster->generations[i]);
    for (uint32_t i = 0; options->is_cold && i < WORKERS_MAX; i++) {
        child_kill(&cluster->contexts[i]);
        child_kill(&cluster->generations[i]);
    }
    start_router(cluster, options);
    if (options->is_cold)
        return;
    cluster_wait_ready(cluster, cluster->n_contexts - options->n_misfits, cluster->n_generations);
}

void cluster_wait_ready(struct cluster *cluster, uint32_t n_contexts, uint32_t n_generations)
{
    uint64_t until_ns = clock_now_ns() + READY_LIMIT_NS;
    for (;;) {
        double contexts = child_metric(&cluster->router, "kvferry_peers",
                                       "role=\"ctx-worker\",state=\"ready\"");
        double generations = child_metric(&cluster->router, "kvferry_peers",
                                          "role=\"gen-worker\",state=\"ready\"");
        if (contexts >= n_contexts && generations >= n_generations)
            return;
        if (clock_now_ns() > until_ns) {
            child_print_log(&cluster->router);
            cr_assert_fail("router sees %g context and %g generation workers", contexts,
                           generations);
        }
        (void)poll(NULL, 0, 10);
    }
}

static double blocks(const struct child *child, const char *state)
{
    char label[48];
    snprintf(label, sizeof label, "state=\"%s\"", state);
    return child_metric(child, "kvferry_kv_blocks", label);
}

static void wait_worker_quiet(const struct child *child)
{
    if (child->pid == 0)
        return;
    static const char *const busy_states[] = {"active", "pinned", "inbound", "quarantined"};
    uint64_t until_ns = clock_now_ns() + QUIET_LIMIT_NS;
    for (;;) {
        double busy = 0;
        for (uint32_t i = 0; i < 4; i++)
            busy += blocks(child, busy_states[i]);
        if (busy == 0)
            return;
        if (clock_now_ns() > until_ns) {
            child_print_log(child);
            cr_assert_fail("%s still owns %g blocks", child->name, busy);
        }
        (void)poll(NULL, 0, 10);
    }
}

void cluster_wait_quiet(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->n_contexts; i++)
        wait_worker_quiet(&cluster->contexts[i]);
    for (uint32_t i = 0; i < cluster->n_generations; i++)
        wait_worker_quiet(&cluster->generations[i]);
}

void cluster_end(struct cluster *cluster)
{
    child_stop(&cluster->router);
    for (uint32_t i = 0; i < cluster->n_generations; i++)
        child_stop(&cluster->generations[i]);
    for (uint32_t i = 0; i < cluster->n_contexts; i++)
        child_stop(&cluster->contexts[i]);
}

void cluster_remove(const struct cluster *cluster)
{
    folder_remove(cluster->folder);
}

void cluster_stop(struct cluster *cluster)
{
    cluster_end(cluster);
    cluster_remove(cluster);
}
