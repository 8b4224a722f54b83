#include "ctx_worker/ctx_engine_admission.h"

#include "engine/prefix_tier.h"

#include <assert.h>

/* Waiting prompts that are looked up in a tier in one step. */
#define LOOKUPS_MAX 4u

static struct prompt *queued_prompt(const struct ctx_engine *engine, schedule_id id)
{
    struct engine_request *request = request_queue_find(&engine->queue, id);
    assert(request && "what waits in the schedule is in the queue");
    return prompt_of(request);
}

/* False: it was refused, so there is more room than the schedule assumed. */
static bool start(struct ctx_engine *engine, schedule_id id, uint64_t now_ns)
{
    struct prefill *slot = prefill_set_find_free(&engine->slots);
    struct prompt *prompt = queued_prompt(engine, id);
    assert(slot && "the schedule has admitted one for each slot that is not free");
    assert(prompt->request.deadline_ns > now_ns);
    enum status status = prefill_take_prompt(slot, &engine->home, prompt, now_ns);
    assert(status != STATUS_NO_BLOCKS && "the schedule has counted its blocks");
    request_queue_remove(&engine->queue, &prompt->request);
    if (status != STATUS_OK) {
        engine_core_refuse(&engine->core, &prompt->request, status, "");
        return false;
    }
    /* Shared blocks only matter where requests are paused, and here none are. */
    schedule_set_prefix(engine->schedule, id, slot->n_cached, 0);
    schedule_set_cut(engine->schedule, id, prefill_cut(slot, &engine->home));
    engine->stats.prompt_tokens_cached += slot->n_cached;
    engine->stats.blocks_published += slot->n_crossed;
    engine->stats.prefix_query_tokens += prompt->request.n_tokens;
    return true;
}

/* In the schedule a waiting prompt costs all its blocks. Only for the next prompt, when blocks are short, the blocks that others
 * hold already are looked up and deducted. True: it has room. */
static bool has_room_by_sharing(struct ctx_engine *engine, schedule_id id)
{
    const struct geometry *geometry = &engine->options.geometry;
    const struct prompt *prompt = queued_prompt(engine, id);
    struct prefill *slot = prefill_set_find_free(&engine->slots);
    uint32_t n_held;
    uint32_t n_known = prefill_peek(slot, &engine->home, prompt, &n_held);
    uint32_t n_own = kv_manager_needs(engine->home.manager, prompt->request.n_tokens) - n_held;
    if (n_own > kv_manager_left(engine->home.manager))
        return false;
    schedule_set_prefix(engine->schedule, id, n_known * geometry->block_tokens, n_held);
    return true;
}

/* Those that come next wait for what a tier has of their prefix. */
static void hold(struct ctx_engine *engine, uint64_t now_ns)
{
    struct prefix_tier *tier = engine->home.tier;
    prefix_tier_run(tier, now_ns);
    struct prefill *slot = tier ? prefill_set_find_free(&engine->slots) : NULL;
    const uint32_t n_waiting = slot ? request_queue_count(&engine->queue) : 0;
    for (uint32_t i = 0; i < n_waiting && i < LOOKUPS_MAX; i++) {
        struct engine_request *request = request_queue_at(&engine->queue, i);
        if (prefix_tier_is_settled(tier, request))
            continue;
        const bool waits = prefix_tier_waits(tier, request, now_ns);
        const bool asks = !waits && !prefix_tier_is_settled(tier, request);
        const uint32_t n = asks ? prefill_hash(slot, &engine->home, prompt_of(request)) : 0;
        schedule_hold(engine->schedule, request->schedule_id,
                      waits || (asks && prefix_tier_holds(tier, request, slot->hashes, n, now_ns)));
    }
}

struct engine_admission ctx_engine_admit(void *arg, uint64_t now_ns)
{
    struct ctx_engine *engine = arg;
    struct schedule_changes changes;
    bool has_more_room = true, shares_enough = false;
    hold(engine, now_ns);
    while (has_more_room) {
        /* Blocks of closed leases are fenced, so they do not count. Asked each time: a prompt that starts may share more than the schedule knew. */
        const struct schedule_room room = {
            .n_blocks_available = kv_manager_left(engine->home.manager),
            .n_handovers_free = UINT32_MAX};
        schedule_capacity(engine->schedule, &room, &changes);
        assert(changes.n_paused == 0 && "a prompt never grows");
        assert((!shares_enough || changes.n_admitted > 0) && "the next one has room");
        has_more_room = false;
        for (uint32_t i = 0; i < changes.n_admitted; i++)
            if (!start(engine, changes.admitted[i].id, now_ns))
                has_more_room = true;
        shares_enough = changes.next != SCHEDULE_NONE && has_room_by_sharing(engine, changes.next);
        has_more_room |= shares_enough;
    }
    ctx_backlog_tell(&engine->backlog, &engine->home, schedule_token_ns(engine->schedule), now_ns);
    return (struct engine_admission){.waits_for = changes.waits_for};
}
