/* What the schedule grants, the KV manager has: no step lacks a block that was planned, whatever sequences share, skip or keep. */
#include "base/random.h"
#include "kvcache/crossing.h"
#include "kvcache/kv_manager.h"
#include "schedule/schedule.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK = 8,
    CONTEXT_MAX = 240,
    REPLY_MAX = 400, /* with sinks it may leave the context */
    SPANS_MAX = CONTEXT_MAX / BLOCK,
    SEQUENCES = 6,
    WAITING = 8,
    IDS = SEQUENCES + WAITING,
    POOL_MAX = 400,
#ifdef KVFERRY_SANITIZED
    STEPS = 400,
    SEEDS = 6,
#else
    STEPS = 1500,
    SEEDS = 40,
#endif
};

/* A layer has a place of 64 bytes a token. */
#define LAYOUT(layers, ...)                                                                        \
    {                                                                                              \
        .n_layers = (layers), .n_kv_heads = 1, .head_dim = 8, .block_tokens = BLOCK,               \
        .dtype = KV_F32, .groups = __VA_ARGS__                                                     \
    }

static const struct layout {
    const char *name;
    struct geometry geometry;
    uint32_t context_tokens, step_spans, n_blocks;
} LAYOUTS[] = {
    {"one full group", LAYOUT(2, {0}), 160, 5, 60},
    {"two full groups, one of a window",
     LAYOUT(6, {.n = 3, .places = 2, .all = {{2, 0, {0}}, {2, 0, {0}}, {2, 20, {0}}}}), 160, 3, 90},
    {"windows of two sizes",
     LAYOUT(5, {.n = 3, .places = 2, .all = {{1, 0, {0}}, {2, 40, {0}}, {2, 9, {0}}}}), 160, 3, 70},
    {"windows alone", LAYOUT(4, {.n = 2, .places = 2, .all = {{2, 17, {0}}, {2, 30, {0}}}}), 160, 5,
     40},
    {"replies with sinks",
     {.n_layers = 2,
      .n_kv_heads = 1,
      .head_dim = 8,
      .block_tokens = BLOCK,
      .dtype = KV_F32,
      .sinks = {40, 3}},
     240,
     5,
     70},
    {"a long window", LAYOUT(4, {.n = 2, .places = 2, .all = {{2, 0, {0}}, {2, 38, {0}}}}), 64, 9,
     40},
    {"a recurrent state", LAYOUT(2, {1, 2, {{2, 0, {0}}}, .n_state = 3}), 160, 5, 60},
    {"a recurrent state beside a window",
     LAYOUT(4, {2, 2, {{2, 0, {0}}, {2, 20, {0}}}, .n_state = 2}), 160, 3, 70},
};

enum stage { FREE, WAITS, RUNS, CROSSES, SEALED, FENCED };

/* A request, by its id in the schedule. */
struct request {
    enum stage stage;
    bool wants_crossing;
    struct block_table table;
    uint32_t tokens[CONTEXT_MAX + REPLY_MAX];
    struct prefix_hash hashes[SPANS_MAX];
    uint32_t n_prompt, max_new, n_tokens, n_kv, n_cut;
    block_id crossed[POOL_MAX];
    uint32_t n_crossed;
};

struct world {
    const struct layout *layout;
    bool is_ctx; /* prompts alone, which are held until they were read */
    enum schedule_policy policy;
    struct random random;
    struct block_pool *pool;
    struct kv_manager *manager;
    struct schedule *schedule;
    struct request requests[IDS];
    uint64_t n_begun, n_ended, n_shared, n_restored, n_left_out, n_refused, n_snapshots, n_cuts;
};

static uint32_t below(struct world *w, uint32_t n)
{
    return (uint32_t)random_below(&w->random, n);
}

static struct cache_step step_of(const struct world *w)
{
    return (struct cache_step){w->layout->step_spans * BLOCK, SEQUENCES, w->layout->context_tokens};
}

/* ---- requests ---- */

static void hash(struct request *request)
{
    static const struct prefix_key KEY = {"0123456789abcdef"};
    const uint32_t n = request->n_tokens < CONTEXT_MAX ? request->n_tokens : CONTEXT_MAX;
    prefix_hash_blocks(&KEY, "", 0, request->tokens, n, BLOCK, request->hashes);
}

/* Prompts of a few kinds, so that beginnings are often equal. */
static void arrive(struct world *w)
{
    const uint32_t n_most = w->layout->context_tokens - 1, kind = below(w, 3);
    uint32_t n_equal = below(w, n_most + 1);
    uint32_t n_prompt = below(w, 2) ? 1 + below(w, n_most) : n_most - below(w, BLOCK);
    if (w->layout->geometry.sinks.window > 0 &&
        below(w, 4) > 0) { /* what a reply will drop is shared */
        n_equal = 90 + below(w, 60);
        n_prompt = 100 + below(w, 60);
    }
    const uint32_t n_left = w->layout->context_tokens - n_prompt;
    const uint32_t n_reply = w->layout->geometry.sinks.window > 0 ? REPLY_MAX : n_left;
    const uint32_t max_new = w->is_ctx ? 0 : 1 + below(w, n_reply);
    schedule_id id;
    const enum status status = schedule_add(w->schedule,
                                            &(struct schedule_request){.tenant = below(w, 2),
                                                                       .weight = 1,
                                                                       .prompt_tokens = n_prompt,
                                                                       .max_new_tokens = max_new},
                                            w->n_begun, NULL, &id);
    if (status != STATUS_OK) {
        w->n_refused++;
        return;
    }
    struct request *request = &w->requests[id];
    cr_assert_eq(request->stage, FREE);
    request->stage = WAITS;
    request->wants_crossing = !w->is_ctx && below(w, 3) == 0;
    request->n_prompt = request->n_tokens = n_prompt;
    request->max_new = max_new;
    request->n_kv = request->n_crossed = 0;
    for (uint32_t i = 0; i < n_prompt; i++)
        request->tokens[i] = i < n_equal ? 1000 * kind + i : below(w, 1u << 20);
    hash(request);
    w->n_begun++;
}

static void end(struct world *w, schedule_id id)
{
    struct request *request = &w->requests[id];
    kv_manager_free(w->manager, &request->table);
    schedule_remove(w->schedule, id);
    request->stage = FREE;
    w->n_ended++;
}

/* ---- admissions ---- */

static uint32_t n_lookup(const struct world *w, const struct request *request)
{
    if (!w->is_ctx && sink_window_dropped(&w->layout->geometry.sinks, BLOCK, request->n_prompt) > 0)
        return 0;
    return (request->n_tokens - 1) / BLOCK;
}

static void look_up(struct world *w)
{
    for (schedule_id id = 0; id < IDS; id++) {
        const struct request *request = &w->requests[id];
        uint32_t n_held;
        if (request->stage != WAITS || below(w, 4) == 0)
            continue;
        const uint32_t n = kv_manager_peek(w->manager, request->hashes, n_lookup(w, request),
                                           &n_held);
        schedule_set_prefix(w->schedule, id, n * BLOCK, n_held);
    }
}

static void pause_request(struct world *w, schedule_id id)
{
    struct request *request = &w->requests[id];
    kv_manager_free(w->manager, &request->table);
    request->stage = WAITS;
    request->n_kv = 0;
}

/* As context workers do it. */
static void cut(struct world *w, schedule_id id)
{
    struct request *request = &w->requests[id];
    const uint32_t n_branch = BLOCK *
                              kv_manager_reach(w->manager, request->hashes, n_lookup(w, request));
    request->n_cut = kv_manager_cut(w->manager, &request->table, request->n_kv, n_branch,
                                    request->n_prompt);
    schedule_set_cut(w->schedule, id, request->n_cut);
}

static void admit(struct world *w, const struct schedule_admission *admission)
{
    struct request *request = &w->requests[admission->id];
    uint32_t n_held;
    (void)kv_manager_peek(w->manager, request->hashes, n_lookup(w, request), &n_held);
    const uint32_t n_cached = kv_manager_match(w->manager, &request->table, request->hashes,
                                               n_lookup(w, request));
    const bool crosses = request->wants_crossing && n_cached < request->n_prompt &&
                         request->n_tokens == request->n_prompt;
    const uint32_t position = crosses ? request->n_prompt : n_cached;
    const struct block_need need = {position, position, admission->n_tokens, crosses};
    const bool is_late = n_held < admission->n_shared; /* what it was to share has gone */
    if (is_late || kv_manager_prepare(w->manager, &request->table, &need) != STATUS_OK) {
        cr_assert(is_late || w->policy == SCHEDULE_MAX_UTILIZATION,
                  "%s: blocks were granted and are not there", w->layout->name);
        w->n_left_out++;
        schedule_pause(w->schedule, admission->id);
        pause_request(w, admission->id);
        return;
    }
    w->n_shared += n_held;
    request->n_kv = n_cached;
    request->stage = crosses ? CROSSES : RUNS;
    schedule_set_prefix(w->schedule, admission->id, n_cached, n_held);
    cut(w, admission->id);
    if (crosses)
        schedule_fetch(w->schedule, admission->id);
}

static void run_capacity(struct world *w)
{
    const struct schedule_room room = {.n_blocks_available = kv_manager_left(w->manager),
                                       .n_handovers_free = UINT32_MAX};
    struct schedule_changes changes;
    look_up(w);
    schedule_capacity(w->schedule, &room, &changes);
    cr_assert(changes.n_paused == 0 || w->policy == SCHEDULE_MAX_UTILIZATION);
    for (uint32_t i = 0; i < changes.n_paused; i++)
        pause_request(w, changes.paused[i]);
    for (uint32_t i = 0; i < changes.n_admitted; i++)
        admit(w, &changes.admitted[i]);
}

/* Spans of a prompt come from a tier, as far as there is room. */
static void restore(struct world *w)
{
    const struct request *request = &w->requests[below(w, IDS)];
    const uint32_t n_groups = block_table_n_rows(&request->table);
    block_id ids[CACHE_GROUPS_MAX];
    for (uint32_t at = 0; request->stage == WAITS && at < (request->n_prompt - 1) / BLOCK; at++) {
        if (kv_manager_has(w->manager, request->hashes[at], 0))
            continue;
        if (kv_manager_take(w->manager, n_groups, ids) != STATUS_OK)
            return;
        w->n_restored += kv_manager_add(w->manager, request->hashes, at, ids);
    }
}

/* ---- a step ---- */

/* A reader holds what crosses; the sequence computes no more. */
static void seal(struct world *w, schedule_id id)
{
    struct request *request = &w->requests[id];
    const struct crossing crossing = crossing_of(&w->layout->geometry, request->n_prompt, 0, 0);
    request->n_crossed = crossing_list(&crossing, 0, crossing.end, request->table.blocks,
                                       request->table.spans_max, 0, request->crossed);
    kv_manager_pin(w->manager, request->crossed, request->n_crossed);
    kv_manager_settle(w->manager, &request->table, request->n_kv, KV_NEXT_NOTHING);
    request->stage = SEALED;
}

static void take_step(struct world *w, const struct schedule_work *work)
{
    struct request *request = &w->requests[work->id];
    const bool is_before_cut = request->n_kv < request->n_cut;
    request->n_kv += work->n_tokens;
    cr_assert(!is_before_cut || request->n_kv <= request->n_cut, "a chunk goes over its end");
    w->n_cuts += is_before_cut && request->n_kv == request->n_cut;
    kv_manager_keep(w->manager, &request->table, request->hashes, request->n_kv / BLOCK);
    if (kv_manager_snapshot_is_due(w->manager, &request->table, request->n_kv,
                                   request->n_kv == request->n_cut)) {
        kv_manager_keep_snapshot(w->manager, &request->table, request->hashes, request->n_kv);
        w->n_snapshots++;
    }
    schedule_computed(w->schedule, work->id, work->n_tokens, work->draws && !w->is_ctx);
    cut(w, work->id);
    if (work->draws && w->is_ctx) {
        seal(w, work->id);
        return;
    }
    kv_manager_settle(w->manager, &request->table, request->n_kv,
                      request->n_kv < request->n_prompt ? KV_NEXT_PROMPT : KV_NEXT_REPLY);
    if (!work->draws)
        return;
    request->tokens[request->n_tokens++] = below(w, 1u << 20);
    hash(request);
    if (request->n_tokens == request->n_prompt + request->max_new || below(w, 60) == 0) {
        end(w, work->id);
        return;
    }
    /* Some tokens can only be one. */
    for (uint32_t n = below(w, 2) == 0 ? below(w, BLOCK) : 0;
         n > 0 && w->layout->geometry.sinks.window == 0 &&
         request->n_tokens + 1 < request->n_prompt + request->max_new;
         n--) {
        schedule_run_ahead(w->schedule, work->id);
        request->tokens[request->n_tokens++] = 7;
        hash(request);
    }
}

static void run_batch(struct world *w)
{
    struct schedule_batch batch;
    bool is_left_out[SEQUENCES] = {false};
    schedule_batch(w->schedule, &batch);
    for (uint32_t i = 0; i < batch.n; i++) {
        const struct schedule_work *work = &batch.work[i];
        struct request *request = &w->requests[work->id];
        const struct block_need need = {request->n_kv, request->n_kv + work->n_tokens,
                                        work->n_known, request->n_kv >= request->n_prompt};
        cr_assert(request->stage == RUNS && work->first == request->n_kv);
        is_left_out[i] = kv_manager_prepare(w->manager, &request->table, &need) != STATUS_OK;
        cr_assert(!is_left_out[i] || w->policy == SCHEDULE_MAX_UTILIZATION,
                  "%s: a planned step lacks blocks", w->layout->name);
        w->n_left_out += is_left_out[i];
    }
    const uint32_t n = batch.n;
    struct schedule_work all[SEQUENCES];
    memcpy(all, batch.work, n * sizeof *all);
    for (uint32_t i = 0; i < n; i++)
        if (!is_left_out[i])
            take_step(w, &all[i]);
}

/* The first token comes before the KV. */
static void arrived(struct world *w, schedule_id id)
{
    struct request *request = &w->requests[id];
    request->tokens[request->n_tokens++] = below(w, 1u << 20);
    hash(request);
    schedule_computed(w->schedule, id, 0, 1);
    schedule_fetched(w->schedule, id);
    request->n_kv = request->n_prompt;
    request->stage = RUNS;
    request->wants_crossing = false;
    kv_manager_keep(w->manager, &request->table, request->hashes, request->n_kv / BLOCK);
    if (request->max_new == 1)
        end(w, id);
}

/* Transfers end, well or not; readers let go. */
static void run_transfers(struct world *w)
{
    for (schedule_id id = 0; id < IDS; id++) {
        struct request *request = &w->requests[id];
        if (below(w, 3) != 0)
            continue;
        if (request->stage == CROSSES && below(w, 4) == 0) {
            schedule_pause(w->schedule, id);
            pause_request(w, id);
            request->wants_crossing = false;
        } else if (request->stage == CROSSES) {
            arrived(w, id);
        } else if (request->stage == SEALED) {
            kv_manager_fence(w->manager, request->crossed, request->n_crossed);
            kv_manager_unpin(w->manager, request->crossed, request->n_crossed);
            kv_manager_free(w->manager, &request->table);
            schedule_close(w->schedule, id);
            request->stage = FENCED;
        } else if (request->stage == FENCED) {
            kv_manager_unfence(w->manager, request->crossed, request->n_crossed);
            end(w, id);
        }
    }
}

/* ---- what must hold ---- */

/* Between two steps a sequence holds what was granted, and what it may still need is there. */
static void check(const struct world *w)
{
    uint32_t n_of[POOL_MAX] = {0}, n_lent = 0; /* holders of blocks of windows */
    bool is_fenced[POOL_MAX] = {false};
    for (schedule_id id = 0; id < IDS; id++) {
        const struct request *request = &w->requests[id];
        const struct block_table *table = &request->table;
        cr_assert_leq(table->n_blocks, kv_manager_needs(w->manager, request->n_tokens),
                      "%s: it holds more than it was granted", w->layout->name);
        for (uint32_t group = 0; group < block_table_n_rows(table); group++) {
            const struct block_row row = block_table_row(table, group);
            for (uint32_t i = 0; i < row.n; i++)
                if (cache_group_window(&table->groups, group) > 0 || i >= table->n_lasting)
                    n_of[row.ids[i]]++;
        }
        for (uint32_t i = 0; i < request->n_crossed && request->stage == FENCED; i++)
            is_fenced[request->crossed[i]] = true;
    }
    for (block_id block = 0; block < POOL_MAX; block++)
        n_lent += n_of[block] > 0 && !is_fenced[block] ? n_of[block] - 1 : n_of[block];
    const uint32_t n_free = kv_manager_count(w->manager, BLOCK_FREE) +
                            kv_manager_count(w->manager, BLOCK_CACHED);
    const uint32_t n_aside = w->layout->n_blocks - kv_manager_all(w->manager);
    cr_assert_geq(n_free, n_aside, "%s: what a step needs is not aside", w->layout->name);
    cr_assert_eq(kv_manager_left(w->manager),
                 n_free > n_aside + n_lent ? n_free - n_aside - n_lent : 0);
}

static void open_world(struct world *w)
{
    const struct layout *layout = w->layout;
    struct error error = {""};
    cr_assert_eq(
        block_pool_create(layout->n_blocks, geometry_block_bytes(&layout->geometry), &w->pool),
        STATUS_OK);
    cr_assert_eq(kv_manager_create(&(struct kv_manager_options){.geometry = &layout->geometry,
                                                                .pool = w->pool,
                                                                .step = step_of(w),
                                                                .prefix_cache = true,
                                                                .snapshot_tokens = 3 * BLOCK,
                                                                .has_replies = !w->is_ctx},
                                   &error, &w->manager),
                 STATUS_OK, "%s", error.text);
    const struct kv_manager_rule rule = kv_manager_rule_of(w->manager);
    struct schedule_options options = {.policy = w->policy,
                                       .n_blocks = kv_manager_all(w->manager),
                                       .n_groups = rule.n_groups,
                                       .blocks_beside = rule.n_beside,
                                       .reply_spans = rule.reply_spans,
                                       .block_tokens = BLOCK,
                                       .batch_tokens = step_of(w).n_tokens,
                                       .chunk_tokens = 3 * BLOCK,
                                       .sequences_max = SEQUENCES,
                                       .waiting_max = WAITING,
                                       .headroom_blocks = 2,
                                       .aging_ms = 10,
                                       .tenant_share_percent = 100};
    memcpy(options.span_limits, rule.span_limits, sizeof options.span_limits);
    cr_assert_eq(schedule_create(&options, &error, &w->schedule), STATUS_OK, "%s", error.text);
    for (schedule_id id = 0; id < IDS; id++)
        cr_assert_eq(kv_manager_init(w->manager, &w->requests[id].table), STATUS_OK);
}

static void close_world(struct world *w)
{
    schedule_destroy(w->schedule);
    for (schedule_id id = 0; id < IDS; id++)
        kv_manager_finish(&w->requests[id].table);
    cr_assert_eq(kv_manager_left(w->manager), kv_manager_all(w->manager), "nobody holds anything");
    kv_manager_destroy(w->manager);
    cr_assert_eq(block_pool_count(w->pool, BLOCK_FREE), w->layout->n_blocks);
    block_pool_destroy(w->pool);
}

static void run_step(struct world *w)
{
    run_transfers(w);
    run_capacity(w);
    check(w);
    run_batch(w);
    check(w);
}

static void run(const struct layout *layout, enum schedule_policy policy, bool is_ctx,
                uint64_t seed)
{
    struct world *w = calloc(1, sizeof *w);
    w->layout = layout;
    w->policy = policy;
    w->is_ctx = is_ctx;
    random_init(&w->random, seed);
    open_world(w);
    for (uint32_t i = 0; i < STEPS; i++) {
        if (below(w, 3) == 0)
            arrive(w);
        if (below(w, 200) == 0)
            (void)kv_manager_flush(w->manager);
        if (below(w, 4) == 0)
            restore(w);
        run_step(w);
    }
    for (uint32_t i = 0; w->n_ended < w->n_begun; i++) {
        cr_assert_lt(i, 20000, "%s: requests wait for ever", layout->name);
        run_step(w);
    }
    cr_assert_gt(w->n_begun, STEPS / 50);
    cr_assert_gt(w->n_restored, 0);
    close_world(w);
    free(w);
}

/* A paused reply with sinks could not be computed again. */
static bool may_pause(const struct layout *layout, enum schedule_policy policy)
{
    return layout->geometry.sinks.window == 0 || policy != SCHEDULE_MAX_UTILIZATION;
}

static void run_all(enum schedule_policy policy, bool is_ctx)
{
    for (size_t i = 0; i < sizeof LAYOUTS / sizeof *LAYOUTS; i++)
        for (uint64_t seed = 1; seed <= SEEDS && may_pause(&LAYOUTS[i], policy); seed++)
            run(&LAYOUTS[i], policy, is_ctx, seed);
}

Test(schedule_and_blocks, of_prompts_that_are_held_until_they_were_read)
{
    run_all(SCHEDULE_NO_EVICT, true);
}

Test(schedule_and_blocks, of_replies_that_are_never_paused)
{
    run_all(SCHEDULE_NO_EVICT, false);
}

Test(schedule_and_blocks, of_replies_that_may_be_paused)
{
    run_all(SCHEDULE_MAX_UTILIZATION, false);
}
