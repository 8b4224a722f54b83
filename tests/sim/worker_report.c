/* What a worker tells the router, as its pool and its engine say. */
#include "tests/sim/worker_node.h"

static uint32_t room(const struct worker_node *worker)
{
    struct ctx_engine_stats ctx;
    struct gen_engine_stats gen;
    if (worker->ctx) {
        ctx_engine_read_stats(worker->ctx, &ctx);
        return ctx.room;
    }
    gen_engine_read_stats(worker->gen, &gen);
    return gen.room;
}

void worker_node_report(struct worker_node *worker)
{
    struct cluster *cluster = worker->cluster;
    struct worker_report report = {0};
    if (wire_is_frozen(&cluster->wire, worker->node) || !worker->is_listed)
        return;
    if (cluster_is_alive(cluster, worker->node)) {
        report.is_ready = !worker->is_draining;
        report.tells_room = true;
        report.room = room(worker);
        report.n_blocks = block_pool_size(worker->pool);
        const uint32_t model = cluster->plan->model;
        for (uint32_t i = 1; oracle_has_adapters(model) && i <= ORACLE_ADAPTERS; i++)
            report.adapters[report.n_adapters++] = adapter_id_key(
                &oracle_adapter(cluster->oracle, model, i)->id);
        report.blocks_usable = block_pool_count(worker->pool, BLOCK_FREE) +
                               block_pool_count(worker->pool, BLOCK_CACHED);
    }
    router_core_ask(cluster->router, worker->router_worker);
    router_core_report(cluster->router, worker->router_worker, &report);
}
