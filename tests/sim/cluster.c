#include "tests/sim/cluster.h"

#include "tests/sim/router_node.h"
#include "tests/sim/tier_disk.h"
#include "tests/sim/worker_node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_NS     (10 * NS_PER_MS) /* the router looks, the transfer threads wake by themselves */
#define END_NS      (60 * NS_PER_S)  /* everything must be quiet by then, */
#define SLOW_END_NS (600 * NS_PER_S) /* or on slow machines */
#define ROUNDS_MAX  400000u          /* more: something turns in circles */
#define RESTLESS_NS 1000ull

static void print_line(const struct cluster *cluster, const char *format, va_list arguments)
{
    fprintf(stderr, "seed %llu %9.3f ms  ", (unsigned long long)cluster->plan->seed,
            (double)cluster->timeline.now_ns / (double)NS_PER_MS);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void cluster_fail(struct cluster *cluster, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_line(cluster, format, arguments);
    va_end(arguments);
    cluster->has_failed = true;
}

void cluster_trace(const struct cluster *cluster, const char *format, ...)
{
    va_list arguments;
    if (!cluster->is_verbose)
        return;
    va_start(arguments, format);
    print_line(cluster, format, arguments);
    va_end(arguments);
}

/* ---- faults ---- */

struct fault_event {
    struct cluster *cluster;
    const struct plan_fault *fault;
};

static void on_restart(void *arg)
{
    struct fault_event *event = arg;
    struct worker_node *worker = &event->cluster->workers[event->fault->node];
    worker_node_kill(worker); /* a drained one still runs */
    cluster_trace(event->cluster, "restart node %u", worker->node);
    worker_node_start(worker);
    router_node_join(event->cluster, worker->node);
}

static void on_mend(void *arg)
{
    struct fault_event *event = arg;
    struct cluster *cluster = event->cluster;
    const struct plan_fault *fault = event->fault;
    cluster_trace(cluster, "mend fault %d", (int)fault->kind);
    if (fault->kind == FAULT_CUT) {
        wire_cut_link(&cluster->wire, fault->node, fault->other, false);
        sim_fabric_cut(cluster->fabric, fault->node, fault->other, false);
    } else {
        sim_fabric_set_options(cluster->fabric, &cluster->plan->network);
    }
}

static void change_network(struct cluster *cluster, double corrupt, double loss)
{
    struct sim_options options = cluster->plan->network;
    if (corrupt > 0)
        options.corrupt = corrupt;
    if (loss > 0)
        options.loss = loss;
    sim_fabric_set_options(cluster->fabric, &options);
}

/* What its list says, the router hears whatever the worker does. */
static void move_worker(struct cluster *cluster, struct fault_event *event)
{
    const struct plan_fault *fault = event->fault;
    struct worker_node *worker = &cluster->workers[fault->node];
    router_node_leave(cluster, fault->node);
    if (fault->kind == FAULT_CRASH)
        worker_node_kill(worker);
    else if (cluster_is_alive(cluster, fault->node))
        worker_node_drain(worker);
    if (fault->for_ns > 0)
        timeline_at(&cluster->timeline, cluster->timeline.now_ns + fault->for_ns, on_restart,
                    event);
}

static void hit_worker(struct cluster *cluster, struct fault_event *event)
{
    const struct plan_fault *fault = event->fault;
    struct worker_node *worker = &cluster->workers[fault->node];
    uint64_t then_ns = cluster->timeline.now_ns + fault->for_ns;
    if (!cluster_is_alive(cluster, fault->node) || wire_is_frozen(&cluster->wire, fault->node))
        return;
    switch (fault->kind) {
    case FAULT_KILL:
        cluster->totals->kills++;
        worker_node_kill(worker);
        if (fault->for_ns > 0)
            timeline_at(&cluster->timeline, then_ns, on_restart, event);
        break;
    case FAULT_FREEZE:
        worker_node_freeze(worker, then_ns);
        break;
    default:
        worker_node_drain(worker);
        timeline_at(&cluster->timeline, then_ns, on_restart, event);
        break;
    }
}

static void on_fault(void *arg)
{
    struct fault_event *event = arg;
    struct cluster *cluster = event->cluster;
    const struct plan_fault *fault = event->fault;
    static const char *const NAMES[] = {"kill", "freeze", "cut",   "corrupt",
                                        "loss", "drain",  "leave", "crash"};
    cluster_trace(cluster, "%s node %u other %u for %.1f ms", NAMES[fault->kind], fault->node,
                  fault->other, (double)fault->for_ns / (double)NS_PER_MS);
    switch (fault->kind) {
    case FAULT_CUT:
        wire_cut_link(&cluster->wire, fault->node, fault->other, true);
        sim_fabric_cut(cluster->fabric, fault->node, fault->other, true);
        break;
    case FAULT_CORRUPT:
        change_network(cluster, 0.3, 0);
        break;
    case FAULT_LOSS:
        change_network(cluster, 0, 0.4);
        break;
    case FAULT_LEAVE:
    case FAULT_CRASH:
        move_worker(cluster, event);
        return;
    default:
        hit_worker(cluster, event);
        return;
    }
    timeline_at(&cluster->timeline, cluster->timeline.now_ns + fault->for_ns, on_mend, event);
}

/* ---- running ---- */

static bool is_quiet(struct cluster *cluster)
{
    for (uint32_t node = 1; node < cluster->n_nodes; node++)
        if (!worker_node_is_quiet(&cluster->workers[node]))
            return false;
    return cluster->n_live_clients == 0;
}

static uint64_t end_ns(const struct cluster *cluster)
{
    return cluster->plan->kind == PLAN_SLOW ? SLOW_END_NS : END_NS;
}

static void on_tick(void *arg)
{
    struct cluster *cluster = arg;
    router_node_look(cluster);
    if (!is_quiet(cluster) && cluster->timeline.now_ns < end_ns(cluster))
        timeline_at(&cluster->timeline, cluster->timeline.now_ns + TICK_NS, on_tick, cluster);
}

static void open_cluster(struct cluster *cluster)
{
    const struct plan *plan = cluster->plan;
    random_init(&cluster->random, plan->seed ^ 0x5eed);
    wire_init(&cluster->wire, &cluster->timeline, plan->seed ^ 0x31e);
    cluster->wire.delay_min_ns = plan->rpc_min_ns;
    cluster->wire.delay_max_ns = plan->rpc_max_ns;
    cluster->n_nodes = 1 + plan->n_ctx + plan->n_gen;
    cluster->wire.nodes[0].life = ++cluster->next_life;
    if (sim_fabric_create(&plan->network, &cluster->fabric) != STATUS_OK)
        cluster_fail(cluster, "no fabric");
    for (uint32_t node = 1; node < cluster->n_nodes; node++) {
        struct worker_node *worker = &cluster->workers[node];
        *worker = (struct worker_node){
            .cluster = cluster, .node = node, .is_ctx = node <= plan->n_ctx};
        snprintf(cluster->names[node], sizeof cluster->names[node], "w%u", node);
        worker_node_start(worker);
    }
    router_node_start(cluster);
    timeline_at(&cluster->timeline, 0, on_tick, cluster);
    for (uint32_t i = 0; i < plan->n_requests; i++)
        router_node_add_client(cluster, i);
    for (uint32_t i = 0; i < plan->n_faults; i++) {
        struct fault_event *event = wire_alloc(&cluster->wire, sizeof *event);
        *event = (struct fault_event){cluster, &plan->faults[i]};
        timeline_at(&cluster->timeline, plan->faults[i].at_ns, on_fault, event);
    }
}

static uint64_t earlier(uint64_t a_ns, uint64_t b_ns)
{
    return a_ns < b_ns ? a_ns : b_ns;
}

static uint64_t next_ns(const struct cluster *cluster)
{
    uint64_t then_ns = timeline_next_ns(&cluster->timeline);
    then_ns = earlier(then_ns, sim_fabric_next_ns(cluster->fabric));
    for (uint32_t node = 1; node < cluster->n_nodes; node++)
        then_ns = earlier(then_ns, worker_node_next_ns(&cluster->workers[node]));
    return then_ns;
}

static void run_moment(struct cluster *cluster)
{
    timeline_run(&cluster->timeline);
    for (uint32_t node = 1; node < cluster->n_nodes; node++)
        worker_node_run(&cluster->workers[node]);
    for (bool has_work = true; has_work;) {
        has_work = false;
        for (uint32_t node = 1; node < cluster->n_nodes; node++)
            has_work |= worker_node_progress(&cluster->workers[node]) > 0;
    }
}

static void run(struct cluster *cluster)
{
    uint64_t same_ns = 0;
    for (uint32_t round = 0; !cluster->has_failed; round++) {
        uint64_t then_ns = next_ns(cluster);
        if (then_ns == TIMELINE_NEVER)
            return;
        if (round > ROUNDS_MAX || then_ns > 4 * end_ns(cluster)) {
            cluster_fail(cluster, "turns in circles");
            return;
        }
        /* A moment that does not pass: let it pass. */
        if (then_ns <= cluster->timeline.now_ns && same_ns++ > 8)
            then_ns = cluster->timeline.now_ns + RESTLESS_NS;
        else if (then_ns > cluster->timeline.now_ns)
            same_ns = 0;
        cluster->timeline.now_ns = then_ns;
        run_moment(cluster);
    }
}

static void judge(struct cluster *cluster)
{
    uint64_t kv_bytes = 0;
    for (uint32_t i = 0; i < cluster->plan->n_requests; i++)
        if (cluster->clients[i].n_ends != 1)
            cluster_fail(cluster, "r%u ended %u times", i, cluster->clients[i].n_ends);
    for (uint32_t node = 1; node < cluster->n_nodes; node++) {
        struct worker_node *worker = &cluster->workers[node];
        if (!worker_node_is_quiet(worker))
            cluster_fail(cluster, "node %u still holds blocks or requests", node);
        kv_bytes += worker->receiver ? kv_receiver_bytes_received(worker->receiver) : 0;
    }
    bool is_plain = cluster->plan->kind == PLAN_CALM || cluster->plan->kind == PLAN_SLOW;
    if (is_plain && kv_bytes != cluster->kv_bytes_expected)
        cluster_fail(cluster, "%llu KV bytes crossed, the geometry says %llu",
                     (unsigned long long)kv_bytes, (unsigned long long)cluster->kv_bytes_expected);
    /* After a pause a prompt's blocks may cross again. */
    if (cluster->plan->kind == PLAN_PAUSES && kv_bytes != cluster->kv_bytes_committed)
        cluster_fail(cluster, "%llu KV bytes crossed, commits were asked for %llu",
                     (unsigned long long)kv_bytes, (unsigned long long)cluster->kv_bytes_committed);
    if (cluster->plan->kind == PLAN_PAUSES && kv_bytes < cluster->kv_bytes_expected)
        cluster_fail(cluster, "%llu KV bytes crossed, the geometry says %llu at least",
                     (unsigned long long)kv_bytes, (unsigned long long)cluster->kv_bytes_expected);
}

static void close_cluster(struct cluster *cluster)
{
    for (uint32_t node = 1; node < cluster->n_nodes; node++)
        worker_node_kill(&cluster->workers[node]);
    for (uint32_t node = 1; node < WIRE_NODES_MAX; node++)
        tier_disk_destroy(cluster->workers[node].disk);
    router_node_finish(cluster);
    sim_fabric_destroy(cluster->fabric);
    timeline_finish(&cluster->timeline);
    wire_finish(&cluster->wire);
}

bool cluster_run(const struct plan *plan, struct oracle *oracle, bool is_verbose,
                 struct totals *totals)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        abort();
    cluster->plan = plan;
    cluster->oracle = oracle;
    cluster->is_verbose = is_verbose;
    cluster->totals = totals;
    open_cluster(cluster);
    run(cluster);
    if (!cluster->has_failed)
        judge(cluster);
    close_cluster(cluster);
    bool is_good = !cluster->has_failed;
    free(cluster);
    totals->runs++;
    return is_good;
}
