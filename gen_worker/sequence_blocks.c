#include "gen_worker/sequence_blocks.h"

#include "engine/cache_events.h"
#include "engine/prefix_tier.h"
#include "gen_worker/sequence_beams.h"
#include "gen_worker/sequence_place.h"
#include "model/forward/forward.h"
#include "schedule/schedule.h"

#include <assert.h>

/* ---- taken ---- */

uint32_t sequence_lookup_blocks(const struct sequence *sequence)
{
    const struct block_table *table = &sequence->table;
    if (sink_window_dropped(&table->sinks, table->block_tokens, sequence_n_prompt(sequence)) > 0)
        return 0; /* what crosses for such a prompt does not begin with what is cached */
    /* The last token is always computed, because its logits are needed. */
    uint32_t n_tokens = sequence->must_verify ? sequence_n_prompt(sequence) : sequence->n_tokens;
    return sequence_n_rowless(sequence, n_tokens - 1) / sequence->table.block_tokens;
}

/* Counts tokens that the cache has beyond all that this sequence ever had. */
static void count_cached(struct sequence *sequence, const struct gen_home *home)
{
    uint32_t n_before = sequence_n_of_prompt(sequence, sequence->n_kv_max);
    uint32_t n_found = sequence_n_of_prompt(sequence, sequence->n_kv);
    if (n_found > n_before) {
        sequence->n_cached += n_found - n_before;
        home->stats->prompt_tokens_cached += n_found - n_before;
    }
    if (sequence->n_kv > sequence->n_kv_max)
        sequence->n_kv_max = sequence->n_kv;
}

static void mark_admitted(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    uint64_t wait_us = (now_ns - sequence->marks.arrived_ns) / NS_PER_US;
    sequence->marks.admitted_ns = now_ns;
    sequence->timing = (struct gen_timing){.queue_us = wait_us, .wait_us = wait_us};
    home->stats->prefix_query_tokens += sequence_n_prompt(sequence);
}

/* Of the first n spans of its tokens those that it can go on from. n_held_out: blocks of these that others hold. */
static uint32_t n_usable(const struct sequence *sequence, const struct gen_home *home, uint32_t n,
                         uint32_t *n_held_out)
{
    const uint32_t n_known = engine_request_usable(
        &sequence->job->request, kv_manager_peek(home->manager, sequence->hashes, n, n_held_out),
        sequence->table.block_tokens);
    *n_held_out = n_known > 0 ? *n_held_out : 0;
    return n_known;
}

enum status sequence_take_blocks(struct sequence *sequence, const struct gen_home *home,
                                 const struct schedule_admission *admission, bool may_cross,
                                 uint64_t now_ns)
{
    assert(sequence->state == SEQUENCE_PAUSED && sequence->table.n_blocks == 0);
    struct block_table *table = &sequence->table;
    const uint32_t n_lookup = sequence_lookup_blocks(sequence);
    uint32_t n_held = 0;
    if (kv_manager_caches(home->manager)) {
        const uint32_t n_known = n_usable(sequence, home, n_lookup, &n_held);
        if (n_held < admission->n_shared) /* looked up in an earlier step */
            return STATUS_NO_BLOCKS;
        sequence->n_kv = n_known * table->block_tokens;
    }
    const bool crosses = may_cross && sequence_wants_context(sequence, home);
    sequence->crosses = crosses;
    if (kv_manager_keeps_states(home->manager))
        sequence->n_branch = table->block_tokens *
                             kv_manager_reach(home->manager, sequence->hashes, n_lookup);
    const uint32_t n_of_prompt = (sequence_n_prompt(sequence) - 1) / table->block_tokens;
    if (crosses && kv_manager_keeps_states(home->manager)) /* the state behind the prompt comes */
        sequence->n_kv = kv_manager_match_spans(home->manager, table, sequence->hashes,
                                                n_lookup < n_of_prompt ? n_lookup : n_of_prompt);
    else if (sequence->n_kv > 0)
        sequence->n_kv = kv_manager_match(home->manager, table, sequence->hashes, n_lookup);
    const uint32_t n_cached = sequence->n_kv;
    const uint32_t position = crosses ? sequence_n_prompt(sequence) : n_cached;
    enum status status = kv_manager_prepare(home->manager, table,
                                            &(struct block_need){.position = position,
                                                                 .end = position,
                                                                 .known = admission->n_tokens,
                                                                 .is_reply = crosses});
    if (status != STATUS_OK) {
        kv_manager_free(home->manager, table);
        sequence->n_kv = 0;
        return status;
    }
    if (sequence->marks.admitted_ns == 0)
        mark_admitted(sequence, home, now_ns);
    sequence->state = SEQUENCE_RESERVED;
    assert(n_cached < sequence->n_tokens);
    assert(!sequence->must_verify || n_cached < sequence_n_prompt(sequence));
    count_cached(sequence, home);
    schedule_set_prefix(home->schedule, sequence->job->request.schedule_id, n_cached, n_held);
    sequence_cut(sequence, home);
    return STATUS_OK;
}

void sequence_cut(struct sequence *sequence, const struct gen_home *home)
{
    const uint32_t n_prompt = sequence_n_prompt(sequence);
    sequence->n_cut = sequence->n_kv < n_prompt
                          ? kv_manager_cut(home->manager, &sequence->table, sequence->n_kv,
                                           sequence->n_branch, n_prompt)
                          : 0;
    schedule_set_cut(home->schedule, sequence->job->request.schedule_id, sequence->n_cut);
}

/* ---- kept ---- */

/* The first n spans. */
static void keep(struct sequence *sequence, const struct gen_home *home, uint32_t n)
{
    const struct cache_source source = {
        .hashes = sequence->hashes,
        .token_ids = sequence->tokens,
        .n = n,
        .is_common = engine_request_is_common(&sequence->job->request)};
    cache_events_begin(home->events, &source);
    kv_manager_keep(home->manager, &sequence->table, sequence->hashes, n);
    cache_events_end(home->events);
}

void sequence_keep_prompt(struct sequence *sequence, const struct gen_home *home)
{
    assert(sequence->n_kv >= sequence_n_prompt(sequence));
    const struct block_table *table = &sequence->table;
    assert(block_table_places(table, sequence_n_prompt(sequence)) <=
           table->n_spans * table->block_tokens);
    if (!sequence->has_other_kv)
        keep(sequence, home, sequence_n_prompt(sequence) / sequence->table.block_tokens);
}

/* Of so many tokens, those that are not of one beam among others. */
static uint32_t n_of_one(const struct sequence *sequence, uint32_t n_tokens)
{
    return sequence_searches(sequence) ? sequence_n_of_prompt(sequence, n_tokens) : n_tokens;
}

/* Hashes the whole blocks of all known tokens. */
static void hash_tokens(struct sequence *sequence, const struct gen_home *home)
{
    const struct engine_request *request = &sequence->job->request;
    const struct prefix_key *key = &home->options->prefix_key;
    const uint32_t block_tokens = sequence->table.block_tokens;
    const uint32_t n = sequence->n_hashed, n_done = n * block_tokens;
    const uint32_t n_known = n_of_one(sequence, sequence->n_tokens) / block_tokens;
    const uint32_t n_tokens = block_tokens * (n_known < sequence->table.spans_max
                                                  ? n_known
                                                  : sequence->table.spans_max);
    assert(n_done <= sequence->n_tokens);
    if (!kv_manager_caches(home->manager) || n_tokens == n_done)
        return;
    if (n == 0)
        engine_request_hash(request, key, sequence->tokens, n_tokens, block_tokens,
                            sequence->hashes);
    else
        prefix_hash_next(key, sequence->hashes[n - 1], sequence->tokens + n_done, n_tokens - n_done,
                         block_tokens, sequence->hashes + n);
    sequence->n_hashed = n_tokens / block_tokens;
}

/* Leading tokens whose KV has the bits that a later prompt would compute. Generated tokens are among them only where prefill and
 * decode compute the same bits. */
static uint32_t n_lasting(const struct sequence *sequence, const struct gen_home *home)
{
    const uint32_t n_prompt = sequence_n_prompt(sequence);
    bool is_all = sequence->n_kv <= n_prompt || forward_phases_agree(home->options->forward);
    return is_all ? n_of_one(sequence, sequence->n_kv) : n_prompt;
}

void sequence_keep_all(struct sequence *sequence, const struct gen_home *home)
{
    assert(sequence->n_kv <= sequence->n_tokens); /* equal where a step drew no token */
    hash_tokens(sequence, home);
    if (!sequence->has_other_kv)
        keep(sequence, home, n_lasting(sequence, home) / sequence->table.block_tokens);
}

void sequence_keep_snapshot(struct sequence *sequence, const struct gen_home *home)
{
    const uint32_t n_kv = sequence->n_kv;
    const bool is_prompt = n_kv == sequence_n_prompt(sequence) || n_kv == sequence->n_cut;
    if (sequence->has_other_kv ||
        !kv_manager_snapshot_is_due(home->manager, &sequence->table, n_kv, is_prompt) ||
        n_lasting(sequence, home) < n_kv)
        return;
    sequence_keep_all(sequence, home);
    kv_manager_keep_snapshot(home->manager, &sequence->table, sequence->hashes, n_kv);
}

void sequence_forget(struct sequence *sequence, const struct gen_home *home)
{
    const uint32_t block_tokens = sequence->table.block_tokens;
    const uint32_t first = sequence->n_cached / block_tokens;
    hash_tokens(sequence, home);
    if (!kv_manager_caches(home->manager) || first >= sequence->n_hashed)
        return;
    (void)kv_manager_forget(home->manager, sequence->hashes[first]);
    prefix_tier_clear(home->tier);
}

/* ---- given back ---- */

static void remember_origin(struct sequence *sequence, uint64_t origin)
{
    assert(origin != 0 && sequence->n_origins <= SEQUENCE_ORIGINS_MAX + 1);
    for (uint32_t i = 0; i < sequence->n_origins && i < SEQUENCE_ORIGINS_MAX; i++)
        if (sequence->origins[i] == origin)
            return;
    if (sequence->n_origins < SEQUENCE_ORIGINS_MAX)
        sequence->origins[sequence->n_origins] = origin;
    if (sequence->n_origins <= SEQUENCE_ORIGINS_MAX)
        sequence->n_origins++;
}

/* Of the spans before n_spans, and of a window group alone if only_windows. */
static void remember_origins(struct sequence *sequence, const struct gen_home *home,
                             uint32_t n_spans, bool only_windows)
{
    const struct block_table *table = &sequence->table;
    for (uint32_t group = 0; group < block_table_n_rows(table); group++) {
        const struct block_row row = block_table_row(table, group);
        if (only_windows && cache_group_window(&table->groups, group) == 0)
            continue;
        for (uint32_t i = 0; i < row.n && row.first + i < n_spans; i++)
            if (kv_manager_origin(home->manager, row.ids[i]) != 0)
                remember_origin(sequence, kv_manager_origin(home->manager, row.ids[i]));
    }
}

static enum kv_next next_of(const struct sequence *sequence)
{
    return sequence->n_kv < sequence_n_prompt(sequence) ? KV_NEXT_PROMPT : KV_NEXT_REPLY;
}

/* The table has blocks that the next query does not see. */
static bool has_passed(const struct sequence *sequence)
{
    const struct block_table *table = &sequence->table;
    if (table->sinks.window > 0)
        return next_of(sequence) == KV_NEXT_REPLY &&
               sink_window_dropped(&table->sinks, table->block_tokens, sequence->n_kv) >
                   table->n_dropped;
    for (uint32_t group = block_table_n_rows(table); group-- > 0;)
        if (table->first[group] <
            cache_group_first_span(&table->groups, group, table->block_tokens, sequence->n_kv))
            return true;
    return false;
}

enum status sequence_prepare(struct sequence *sequence, const struct gen_home *home,
                             uint32_t n_tokens, uint32_t n_known)
{
    const struct block_need need = {.position = sequence->n_kv,
                                    .end = sequence->n_kv + n_tokens,
                                    .known = n_known,
                                    .is_reply = next_of(sequence) == KV_NEXT_REPLY};
    /* Blocks of the prompt may be given back: what tokens depend on is remembered. */
    const bool is_first = sequence->n_kv == sequence_n_prompt(sequence);
    const bool has_beams = sequence_searches(sequence) && sequence_n_generated(sequence) > 0;
    if (has_beams && is_first)
        remember_origins(sequence, home, geometry_spans(&home->options->geometry, sequence->n_kv),
                         false);
    const enum status status = has_beams
                                   ? sequence_prepare_beams(sequence, home, &need)
                                   : kv_manager_prepare(home->manager, &sequence->table, &need);
    assert(status != STATUS_INVALID_ARGUMENT && "the schedule knows how long it may become");
    return status;
}

void sequence_settle_blocks(struct sequence *sequence, const struct gen_home *home)
{
    assert(sequence_is_runnable(sequence) && !sequence->handover);
    if (!kv_manager_settles(home->manager) || !has_passed(sequence))
        return;
    sequence_keep_all(sequence, home); /* what goes is in the prefix cache by then */
    const bool has_sinks = sequence->table.sinks.window > 0;
    remember_origins(sequence, home, sequence->n_kv / sequence->table.block_tokens, !has_sinks);
    kv_manager_settle(home->manager, &sequence->table, sequence->n_kv, next_of(sequence));
    if (sequence_searches(sequence))
        sequence_settle_beams(sequence, home, sequence->n_kv);
}

void sequence_pause(struct sequence *sequence, const struct gen_home *home)
{
    struct block_table *table = &sequence->table;
    assert(sequence_is_runnable(sequence) && !sequence->handover);
    const uint32_t n_used = geometry_spans(&home->options->geometry, sequence->n_kv);
    assert(n_used <= table->n_spans);
    remember_origins(sequence, home, n_used, false);
    sequence_keep_all(sequence, home);
    kv_manager_free(home->manager, table);
    sequence->job->lookup_at = 0; /* the schedule has forgotten its prefix */
    sequence->n_kv = sequence->n_ahead = 0;
    sequence->has_other_kv = false;
    sequence->state = SEQUENCE_PAUSED;
    if (sequence_searches(sequence))
        sequence_restart_beams(sequence, home);
}

bool sequence_has_used(const struct sequence *sequence, const struct gen_home *home,
                       uint64_t incarnation)
{
    const struct block_table *table = &sequence->table;
    for (uint32_t i = 0; i < sequence->n_origins && i < SEQUENCE_ORIGINS_MAX; i++)
        if (sequence->origins[i] == incarnation)
            return true;
    for (uint32_t group = 0; group < block_table_n_rows(table); group++) {
        const struct block_row row = block_table_row(table, group);
        for (uint32_t i = 0; i < row.n; i++)
            if (kv_manager_origin(home->manager, row.ids[i]) == incarnation)
                return true;
    }
    return sequence->n_origins > SEQUENCE_ORIGINS_MAX;
}
