#include "tests/sim/worker_node.h"

#include "tests/sim/draft_node.h"
#include "tests/sim/tier_disk.h"
#include "tests/sim/tier_node.h"
#include "tests/sim/watch_node.h"
#include "worker_common/worker.h"
#include "worker_common/worker_forward.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(const struct worker_node *worker, enum status status, const struct error *error)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "seed %llu node %u: %s %s\n", (unsigned long long)worker->cluster->plan->seed,
            worker->node, status_name(status), error->text);
    abort();
}

#define SNAPSHOT_TOKENS 32u
#define STAGE_BYTES     (1u << 17) /* some blocks */

bool worker_node_is_contiguous(const struct plan *plan)
{
    return plan->seed % 7 == 6 && !plan->has_sinks;
}

static enum kv_manager_choice manager_kind(const struct worker_node *worker)
{
    return worker_node_is_contiguous(worker->cluster->plan) ? KV_MANAGER_CONTIGUOUS
                                                            : KV_MANAGER_PAGED;
}

static uint32_t step_tokens(const struct worker_node *worker, const struct geometry *geometry)
{
    const struct plan *plan = worker->cluster->plan;
    const uint32_t wanted = worker->is_ctx ? ctx_options_step_tokens(plan->batch_tokens,
                                                                     geometry->block_tokens)
                                           : plan->batch_tokens + plan->slots_max;
    return worker_node_step_tokens(plan, wanted);
}

/* The plan counts blocks as if there were one group of layers: here are as many for as many sequences, and those of a step. */
static uint32_t pool_blocks(const struct worker_node *worker, const struct geometry *geometry)
{
    const struct plan *plan = worker->cluster->plan;
    const uint32_t n_planned = worker->is_ctx ? plan->ctx_blocks : plan->gen_blocks;
    const uint32_t n_spans = ORACLE_CONTEXT_TOKENS / plan->block_tokens; /* as planned */
    const struct cache_step step = {step_tokens(worker, geometry), plan->slots_max,
                                    plan_context_tokens(plan)};
    const uint32_t n_blocks = geometry_blocks(geometry, plan_context_tokens(plan));
    const uint32_t most = geometry_spans(geometry, plan_context_tokens(plan));
    if (manager_kind(worker) == KV_MANAGER_CONTIGUOUS)
        return (geometry->groups.n * most + geometry->groups.n_state) *
               ((n_planned + n_spans - 1) / n_spans);
    return (n_planned * n_blocks + n_spans - 1) / n_spans + geometry_step_blocks(geometry, &step);
}

const char *worker_node_address(const struct cluster *cluster, uint32_t node)
{
    return cluster->names[node];
}

uint32_t worker_node_find(const struct cluster *cluster, const char *address)
{
    uint32_t node = (uint32_t)strtoul(address + 1, NULL, 10);
    if (node == 0 || node >= cluster->n_nodes ||
        strcmp(worker_node_address(cluster, node), address) != 0)
        abort();
    return node;
}

static void on_transfer_event(void *arg)
{
    struct worker_node *worker = arg;
    worker->cluster->wire.nodes[worker->node].is_due = true;
}

/* A disk keeps its key. */
static struct prefix_key draw_key(struct worker_node *worker)
{
    struct prefix_key key;
    if (worker->disk)
        return tier_disk_key(worker->disk);
    for (size_t i = 0; i < sizeof key.bytes; i++)
        key.bytes[i] = (uint8_t)random_below(&worker->cluster->random, 256);
    return key;
}

/* ---- what is read must be held ---- */

static void check_read(const struct worker_node *worker, const struct block_read *read)
{
    enum block_state state = block_pool_state(worker->pool, read->remote_block);
    if (state != BLOCK_PINNED && state != BLOCK_QUARANTINED)
        cluster_fail(worker->cluster, "node %u: block %u is read while it is %s", worker->node,
                     read->remote_block, block_state_name(state));
}

static enum status on_read_begin(void *arg, struct block_read *read)
{
    const struct worker_node *worker = arg;
    enum status status = worker->source.read_begin(worker->source.arg, read);
    if (status == STATUS_OK)
        check_read(worker, read);
    return status;
}

static void on_read_end(void *arg, struct block_read *read, enum status status)
{
    const struct worker_node *worker = arg;
    if (status == STATUS_OK)
        check_read(worker, read);
    worker->source.read_end(worker->source.arg, read, status);
}

/* Puts the checks between the transport and the sender. */
static void watch_reads(struct worker_node *worker)
{
    struct transport_source *source = &worker->transport->source;
    worker->source = *source;
    source->arg = worker;
    source->refresh = NULL; /* admission is UCX's business */
    source->read_begin = on_read_begin;
    source->read_end = on_read_end;
}

static uint32_t slots_max(const struct worker_node *worker)
{
    const struct plan *plan = worker->cluster->plan;
    return worker->node == plan->small_node ? 1 : plan->slots_max;
}

static uint32_t queue_max(const struct worker_node *worker)
{
    const struct plan *plan = worker->cluster->plan;
    return worker->node == plan->small_node ? 1 : plan->queue_max;
}

static void set_to_zero(void *bytes, size_t n_bytes)
{
    memset(bytes, 0, n_bytes);
}

static void create_forward(struct worker_node *worker, const struct geometry *geometry)
{
    const struct plan *plan = worker->cluster->plan;
    struct error error = {""};
    const struct worker_step step = {
        .tokens_max = step_tokens(worker, geometry),
        .sequences_max = plan->slots_max,
        .context_tokens = plan_context_tokens(worker->cluster->plan),
        .kv_scales = oracle_kv_scales(worker->cluster->oracle, plan->model),
        .adapter_rank_max = oracle_adapter_rank(plan->model),
        .device = worker->device,
    };
    must(worker,
         worker_forward_create(oracle_model(worker->cluster->oracle, plan->model), geometry, &step,
                               &error, &worker->forward),
         &error);
    must(worker, forward_attach(worker->forward, worker->pool, &error), &error);
}

static void start_ctx(struct worker_node *worker, const struct geometry *geometry)
{
    const struct plan *plan = worker->cluster->plan;
    const struct model *model = oracle_model(worker->cluster->oracle, plan->model);
    struct error error = {""};
    const struct kv_sender_options sender = {
        .transfers_max = plan->slots_max,
        .blocks_max = geometry_blocks(geometry, plan_context_tokens(worker->cluster->plan)),
        .device = worker->device,
        .pool_base = block_pool_base(worker->pool),
        .block_bytes = block_pool_block_bytes(worker->pool),
        .n_blocks = pool_blocks(worker, geometry),
    };
    must(worker, kv_sender_create(&sender, worker->transport, &worker->sender), &error);
    kv_sender_on_event(worker->sender, on_transfer_event, worker);
    watch_reads(worker);
    const struct ctx_engine_options options = {
        .name = worker_node_address(worker->cluster, worker->node),
        .incarnation = worker->incarnation,
        .prefix_key = worker->prefix_key = draw_key(worker),
        .model = model,
        .forward = worker->forward,
        .device = worker->device,
        .pool = worker->pool,
        .tier = worker->tier,
        .restore_limit_ns = tier_node_limit_ns(worker),
        .sender = worker->sender,
        .geometry = *geometry,
        .kv_manager = manager_kind(worker),
        .vocabulary = model_get_config(model)->vocabulary,
        .context_tokens = plan_context_tokens(worker->cluster->plan),
        .line = oracle_line(plan->model, plan->block_tokens),
        .chunk_tokens = worker_node_step_tokens(plan, plan->chunk_tokens),
        .step_target_ns = oracle_has_encoder(plan->model) ? 0 : plan->step_target_ns,
        .batch_tokens = worker_node_step_tokens(plan, plan->batch_tokens),
        .slots_max = slots_max(worker),
        .queue_max = queue_max(worker),
        .streams_max = 2 * plan->n_requests + plan->slots_max + plan->queue_max,
        .calls_max = plan->n_requests,
        .caller_share = plan->caller_share,
        .priority_aging_ms = plan->priority_aging_ms,
        .queue_limit_ns = plan->queue_limit_ns,
        .lease_limit_ns = plan->lease_limit_ns,
        .kv_digest = plan->kv_digest,
        .prefix_cache = plan->prefix_cache,
        .snapshot_tokens = SNAPSHOT_TOKENS,
        .kv_events_max = WATCH_EVENTS_MAX,
        .kv_scrub = plan->seed % 2,
    };
    struct ctx_engine_ops ops = CTX_NODE_OPS;
    ops.arg = worker;
    must(worker, ctx_engine_create(&options, &ops, &error, &worker->ctx), &error);
}

static struct gen_engine_options gen_options(struct worker_node *worker,
                                             const struct geometry *geometry)
{
    const struct plan *plan = worker->cluster->plan;
    const struct model *model = oracle_model(worker->cluster->oracle, plan->model);
    const struct model_config *config = model_get_config(model);
    struct gen_engine_options options = {
        .name = worker_node_address(worker->cluster, worker->node),
        .incarnation = worker->incarnation,
        .prefix_key = worker->prefix_key = draw_key(worker),
        .model = model,
        .forward = worker->forward,
        .device = worker->device,
        .pool = worker->pool,
        .tier = worker->tier,
        .restore_limit_ns = tier_node_limit_ns(worker),
        .receiver = worker->receiver,
        .geometry = *geometry,
        .kv_manager = manager_kind(worker),
        .vocabulary = config->vocabulary,
        .context_tokens = plan_context_tokens(worker->cluster->plan),
        .n_eos_ids = config->n_eos_ids,
        .line = oracle_line(plan->model, plan->block_tokens),
        .chunk_tokens = worker_node_step_tokens(plan, plan->chunk_tokens),
        .step_target_ns = oracle_has_encoder(plan->model) ? 0 : plan->step_target_ns,
        .batch_tokens = worker_node_step_tokens(plan, plan->batch_tokens),
        .sequences_max = slots_max(worker),
        .queue_max = queue_max(worker),
        .capacity_policy = plan->policy,
        .headroom_blocks = plan->headroom_blocks,
        .drafts = draft_node_guesses(plan),
        .drafter = worker->drafter,
        .priority_aging_ms = plan->priority_aging_ms,
        .streams_max = 2 * plan->n_requests + plan->slots_max + plan->queue_max,
        .prefills_max = plan->prefills_max,
        .events_max = 32,
        .local_prefill = plan->local_prefill,
        .local_prefill_max_tokens = plan->local_prefill_max_tokens,
        .prefix_cache = plan->prefix_cache,
        .snapshot_tokens = SNAPSHOT_TOKENS,
        .kv_events_max = WATCH_EVENTS_MAX,
        .kv_scrub = plan->seed % 2,
        .queue_limit_ns = plan->queue_limit_ns,
        .context_limit_ns = plan->context_limit_ns,
        .context_limit_tokens = plan->chunk_tokens,
        .context_limit_max_ns = plan->context_limit_max_ns,
        .transfer_limit_ns = plan->transfer_limit_ns,
        .transfer_limit_mib_ns = plan->transfer_limit_ns,
        .commit_limit_ns = plan->commit_limit_ns,
    };
    memcpy(options.eos_ids, config->eos_ids, config->n_eos_ids * sizeof options.eos_ids[0]);
    return options;
}

static void start_gen(struct worker_node *worker, const struct geometry *geometry)
{
    const struct plan *plan = worker->cluster->plan;
    struct error error = {""};
    const struct kv_receiver_options receiver = {
        .transfers_max = plan->prefills_max,
        .blocks_max = 4 * pool_blocks(worker, geometry), /* those that come may have fewer tokens */
        .stage_bytes = (uint64_t)STAGE_BYTES * plan->prefills_max,
        .scrubs = plan->seed % 2,
        .peers_max = worker->cluster->n_nodes + 8,
        .window_max = plan->window_max,
        .device = worker->device,
        .pool_base = block_pool_base(worker->pool),
        .block_bytes = block_pool_block_bytes(worker->pool),
        .n_blocks = pool_blocks(worker, geometry),
        .quiet_limit_ns = plan->quiet_limit_ns,
    };
    must(worker, kv_receiver_create(&receiver, worker->transport, &worker->receiver), &error);
    kv_receiver_on_event(worker->receiver, on_transfer_event, worker);
    must(worker,
         draft_node_create(plan, worker->cluster->oracle, worker->device, slots_max(worker), &error,
                           &worker->drafter),
         &error);
    const struct gen_engine_options options = gen_options(worker, geometry);
    struct gen_engine_ops ops = GEN_NODE_OPS;
    ops.arg = worker;
    must(worker, gen_engine_create(&options, &ops, &error, &worker->gen), &error);
}

static void step(void *arg)
{
    struct worker_node *worker = arg;
    uint64_t now_ns = worker->cluster->timeline.now_ns;
    worker->next_step_ns = worker->ctx ? ctx_engine_step(worker->ctx, now_ns)
                                       : gen_engine_step(worker->gen, now_ns);
}

void worker_node_start(struct worker_node *worker)
{
    struct cluster *cluster = worker->cluster;
    struct error error = {""};
    const struct geometry geometry = worker_node_geometry(cluster, worker->is_ctx);
    worker->incarnation = random_u64(&cluster->random) | 1;
    worker->is_draining = false;
    worker->busy_until_ns = worker->next_step_ns = 0;
    worker->is_warm = worker->is_hurried = false;
    worker->layers_seen = 0;
    worker->tokens_before = 0;
    worker->prefills = NULL;
    worker->streams = NULL;
    size_t n_contexts = worker->is_ctx ? 0 : cluster->plan->n_ctx + 1;
    worker->described = wire_alloc(&cluster->wire, n_contexts * sizeof *worker->described);
    worker->last_incarnation = wire_alloc(&cluster->wire,
                                          n_contexts * sizeof *worker->last_incarnation);
    must(worker, device_open("cpu", &worker->device, &error), &error);
    must(worker,
         block_pool_create(pool_blocks(worker, &geometry), geometry_block_bytes(&geometry),
                           &worker->pool),
         &error);
    /* What is used behind its end is wrong then. */
    block_pool_scrub(worker->pool, cluster->plan->seed % 2 ? set_to_zero : NULL);
    must(worker,
         sim_transport_open(cluster->fabric, worker->node, worker->incarnation, &worker->transport),
         &error);
    create_forward(worker, &geometry);
    tier_node_start(worker, &geometry, manager_kind(worker) == KV_MANAGER_PAGED);
    if (worker->is_ctx)
        start_ctx(worker, &geometry);
    else
        start_gen(worker, &geometry);
    watch_node_start(worker, &worker->prefix_key);
    if (worker->is_ctx && cluster->plan->cold_layer_ns > 0)
        worker->step_thread = step_thread_create(step, worker);
    cluster->wire.nodes[worker->node] = (struct wire_node){.life = ++cluster->next_life,
                                                           .is_due = true};
}

/* What this life leaves for the totals of all runs. */
static void collect(struct worker_node *worker)
{
    struct totals *totals = worker->cluster->totals;
    struct ctx_engine_stats ctx;
    struct gen_engine_stats gen;
    totals->late_pieces += worker->transport->late_pieces;
    if (worker->ctx) {
        ctx_engine_read_stats(worker->ctx, &ctx);
        totals->commits_refused += ctx.commits_refused;
        tier_node_collect(worker, &ctx.tier);
        return;
    }
    gen_engine_read_stats(worker->gen, &gen);
    tier_node_collect(worker, &gen.tier);
    totals->handovers_committed += gen.handovers_committed;
    totals->handovers_failed += gen.handovers_failed;
    totals->fell_back += gen.handovers_fell_back;
    totals->recomputed += gen.kv_tokens_recomputed;
    totals->pauses += gen.pauses;
    totals->drafted += gen.draft_tokens;
    totals->accepted += gen.draft_tokens_accepted;
    totals->tokens_again += gen.tokens_again;
    totals->prefix_cached += gen.prompt_tokens_cached;
    totals->kv_bytes += kv_receiver_bytes_received(worker->receiver);
    worker->kv_bytes_of_past_lives += kv_receiver_bytes_received(worker->receiver);
}

void worker_node_kill(struct worker_node *worker)
{
    struct cluster *cluster = worker->cluster;
    if (!cluster_is_alive(cluster, worker->node))
        return;
    worker->is_hurried = true;
    while (worker->is_in_step)
        worker->is_in_step = !step_thread_go(worker->step_thread);
    step_thread_destroy(worker->step_thread);
    worker->step_thread = NULL;
    collect(worker);
    wire_node_died(&cluster->wire, worker->node);
    watch_node_stop(worker);
    ctx_engine_destroy(worker->ctx);
    gen_engine_destroy(worker->gen);
    (void)kv_tier_destroy(worker->tier);
    drafter_destroy(worker->drafter);
    forward_destroy(worker->forward);
    kv_sender_destroy(worker->sender);
    kv_receiver_destroy(worker->receiver);
    worker->transport->ops->close(worker->transport);
    block_pool_destroy(worker->pool);
    device_close(worker->device);
    worker->ctx = NULL;
    worker->gen = NULL;
    worker->tier = NULL;
    worker->forward = NULL;
    worker->drafter = NULL;
    worker->sender = NULL;
    worker->receiver = NULL;
    worker->transport = NULL;
    worker->pool = NULL;
    worker->device = NULL;
}

void worker_node_freeze(struct worker_node *worker, uint64_t until_ns)
{
    wire_node_freeze(&worker->cluster->wire, worker->node, until_ns);
    sim_transport_stall(worker->transport, until_ns);
}

void worker_node_drain(struct worker_node *worker)
{
    worker->is_draining = true;
    if (worker->ctx)
        ctx_engine_drain(worker->ctx);
    else
        gen_engine_drain(worker->gen);
    worker->cluster->wire.nodes[worker->node].is_due = true;
}

/* Tokens computed so far, and that all blocks are accounted for. */
static uint64_t look(struct worker_node *worker)
{
    const uint32_t *blocks;
    uint32_t n_blocks, n_lost, sum = 0;
    uint64_t tokens;
    struct ctx_engine_stats ctx;
    struct gen_engine_stats gen;
    if (worker->ctx) {
        ctx_engine_read_stats(worker->ctx, &ctx);
        blocks = ctx.blocks;
        n_blocks = ctx.n_blocks;
        n_lost = ctx.blocks_unowned;
        tokens = ctx.prompt_tokens_computed;
    } else {
        gen_engine_read_stats(worker->gen, &gen);
        blocks = gen.blocks;
        n_blocks = gen.n_blocks;
        n_lost = gen.blocks_unowned;
        tokens = gen.prompt_tokens_computed + gen.generated_tokens + gen.tokens_again;
        if (gen.quarantined_transfers > 0)
            worker->cluster->totals->quarantines++;
    }
    for (uint32_t i = 0; i < BLOCK_STATES; i++)
        sum += blocks[i];
    if (n_lost > 0)
        cluster_fail(worker->cluster, "node %u: %u blocks that nobody holds", worker->node, n_lost);
    if (sum != n_blocks)
        cluster_fail(worker->cluster, "node %u: %u of %u blocks", worker->node, sum, n_blocks);
    return tokens;
}

static uint64_t next_step_ns(const struct worker_node *worker)
{
    const struct wire *wire = &worker->cluster->wire;
    const struct wire_node *node = &wire->nodes[worker->node];
    if (node->life == 0)
        return TIMELINE_NEVER;
    uint64_t next_ns = node->is_due || worker->is_in_step ? wire->timeline->now_ns
                                                          : worker->next_step_ns;
    if (next_ns == TIMELINE_NEVER)
        return next_ns;
    if (next_ns < worker->busy_until_ns)
        next_ns = worker->busy_until_ns;
    return next_ns < node->frozen_until_ns ? node->frozen_until_ns : next_ns;
}

uint64_t worker_node_next_ns(const struct worker_node *worker)
{
    const uint64_t step_ns = next_step_ns(worker);
    const struct wire_node *node = &worker->cluster->wire.nodes[worker->node];
    if (node->life == 0 || !worker->tier || worker->tier_next_ns == TIMELINE_NEVER)
        return step_ns;
    const uint64_t tier_ns = worker->tier_next_ns < node->frozen_until_ns ? node->frozen_until_ns
                                                                          : worker->tier_next_ns;
    return tier_ns < step_ns ? tier_ns : step_ns;
}

void worker_node_pass_layers(struct worker_node *worker)
{
    const struct cluster *cluster = worker->cluster;
    uint64_t layers = forward_layers_done(worker->forward), n = layers - worker->layers_seen;
    worker->layers_seen = layers;
    if (!worker->step_thread || n == 0 || worker->is_hurried)
        return;
    uint64_t layer_ns = worker->is_warm ? cluster->plan->layer_ns : cluster->plan->cold_layer_ns;
    worker->busy_until_ns = cluster->timeline.now_ns + n * layer_ns;
    step_thread_pause(worker->step_thread);
}

/* False: it goes on later. */
static bool run_step(struct worker_node *worker)
{
    if (!worker->step_thread) {
        step(worker);
        return true;
    }
    worker->is_in_step = !step_thread_go(worker->step_thread);
    return !worker->is_in_step;
}

void worker_node_run(struct worker_node *worker)
{
    struct cluster *cluster = worker->cluster;
    uint64_t now_ns = cluster->timeline.now_ns;
    if (next_step_ns(worker) > now_ns)
        return;
    if (!worker->is_in_step) {
        cluster->wire.nodes[worker->node].is_due = false;
        worker->layers_before = worker->layers_seen;
    }
    if (!run_step(worker))
        return;
    if (worker->tier && worker->tier_next_ns == TIMELINE_NEVER)
        worker->tier_next_ns = now_ns + tier_disk_delay_ns(worker->disk);
    watch_node_look(worker);
    uint64_t tokens = look(worker);
    uint64_t n_new = tokens - worker->tokens_before;
    worker->is_warm |= n_new > 0;
    worker->tokens_before = tokens;
    worker->busy_until_ns = now_ns + 1000;
    if (n_new > 0)
        worker->busy_until_ns += cluster->plan->step_ns + n_new * cluster->plan->token_ns;
}

unsigned worker_node_progress(struct worker_node *worker)
{
    struct cluster *cluster = worker->cluster;
    uint64_t now_ns = cluster->timeline.now_ns;
    if (!cluster_is_alive(cluster, worker->node) || wire_is_frozen(&cluster->wire, worker->node))
        return 0;
    (void)tier_node_run(worker);
    return worker->sender ? kv_sender_progress(worker->sender, now_ns)
                          : kv_receiver_progress(worker->receiver, now_ns);
}

bool worker_node_is_quiet(struct worker_node *worker)
{
    struct ctx_engine_stats ctx;
    struct gen_engine_stats gen;
    const uint32_t *blocks;
    if (!cluster_is_alive(worker->cluster, worker->node))
        return true;
    if (worker->ctx) {
        ctx_engine_read_stats(worker->ctx, &ctx);
        blocks = ctx.blocks;
        if (ctx.queued + ctx.computing + ctx.sealed + ctx.closing > 0)
            return false;
    } else {
        gen_engine_read_stats(worker->gen, &gen);
        blocks = gen.blocks;
        if (gen.queued + gen.paused + gen.reserved + gen.fetching + gen.committing +
                gen.local_prefill + gen.decoding + gen.quarantined_transfers >
            0)
            return false;
    }
    return blocks[BLOCK_ACTIVE] + blocks[BLOCK_PINNED] + blocks[BLOCK_INBOUND] +
               blocks[BLOCK_QUARANTINED] ==
           0;
}
