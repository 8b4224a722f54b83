#include "schedule/schedule.h"

#include "schedule/schedule_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const char *schedule_policy_name(enum schedule_policy policy)
{
    switch (policy) {
    case SCHEDULE_NO_EVICT:
        return "no-evict";
    case SCHEDULE_MAX_UTILIZATION:
        return "max-utilization";
    case SCHEDULE_STATIC_BATCH:
        return "static-batch";
    }
    return "unknown";
}

/* ---- creation ---- */

static enum status check_options(const struct schedule_options *options, struct error *error)
{
    if (options->policy > SCHEDULE_STATIC_BATCH)
        return error_set(error, STATUS_INVALID_ARGUMENT, "policy %d is none", options->policy);
    if (options->n_blocks == 0 || options->block_tokens == 0 || options->sequences_max == 0 ||
        options->waiting_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_blocks, block_tokens, sequences_max and waiting_max cannot be 0");
    if (options->n_groups > SCHEDULE_GROUPS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "n_groups is %u, at most %u",
                         options->n_groups, SCHEDULE_GROUPS_MAX);
    for (uint32_t i = 0; i < options->n_groups; i++)
        if (options->span_limits[i] == 0)
            return error_set(error, STATUS_INVALID_ARGUMENT, "span_limits[%u] is 0", i);
    if (options->batch_tokens <= options->block_tokens)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "batch_tokens is %u, wanted over block_tokens (%u)", options->batch_tokens,
                         options->block_tokens);
    if (options->chunk_tokens < options->block_tokens)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "chunk_tokens is %u, under block_tokens (%u)", options->chunk_tokens,
                         options->block_tokens);
    if (options->tenant_share_percent == 0 || options->tenant_share_percent > 100)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "tenant_share_percent is %u, wanted 1 to 100",
                         options->tenant_share_percent);
    return STATUS_OK;
}

static enum status make_parts(struct schedule *schedule)
{
    uint32_t sequences_max = schedule->options.sequences_max;
    schedule->entries = calloc(schedule->entries_max, sizeof *schedule->entries);
    schedule->unused = calloc(schedule->entries_max, sizeof *schedule->unused);
    schedule->holdings = calloc(schedule->entries_max, sizeof *schedule->holdings);
    schedule->admitted = calloc(sequences_max, sizeof *schedule->admitted);
    schedule->paused = calloc(sequences_max, sizeof *schedule->paused);
    schedule->admissions = calloc(sequences_max, sizeof *schedule->admissions);
    schedule->work = calloc(sequences_max, sizeof *schedule->work);
    schedule->decodes = calloc(sequences_max, sizeof *schedule->decodes);
    if (!schedule->entries || !schedule->unused || !schedule->holdings || !schedule->admitted ||
        !schedule->paused || !schedule->admissions || !schedule->work || !schedule->decodes)
        return STATUS_NO_MEMORY;
    while (schedule->n_unused < schedule->entries_max) {
        schedule->unused[schedule->n_unused] = schedule->entries_max - 1 - schedule->n_unused;
        schedule->n_unused++;
    }
    TRY(shares_init(&schedule->shares, schedule->entries_max));
    TRY(fair_queue_init(&schedule->queue, schedule->entries_max));
    return fair_turns_init(&schedule->turns, schedule->entries_max);
}

enum status schedule_create(const struct schedule_options *options, struct error *error,
                            struct schedule **schedule_out)
{
    TRY(check_options(options, error));
    struct schedule *schedule = calloc(1, sizeof *schedule);
    if (!schedule)
        return STATUS_NO_MEMORY;
    schedule->options = *options;
    schedule->entries_max = options->sequences_max + options->waiting_max;
    pace_init(&schedule->pace, options->step_target_ns, options->block_tokens,
              options->batch_tokens);
    enum status status = make_parts(schedule);
    if (status != STATUS_OK) {
        schedule_destroy(schedule);
        return status;
    }
    *schedule_out = schedule;
    return STATUS_OK;
}

void schedule_destroy(struct schedule *schedule)
{
    if (!schedule)
        return;
    fair_queue_finish(&schedule->queue);
    fair_turns_finish(&schedule->turns);
    shares_finish(&schedule->shares);
    free(schedule->entries);
    free(schedule->unused);
    free(schedule->holdings);
    free(schedule->admitted);
    free(schedule->paused);
    free(schedule->admissions);
    free(schedule->work);
    free(schedule->decodes);
    free(schedule);
}

/* ---- blocks and states ---- */

static uint32_t n_spans_of(const struct schedule_options *options, uint32_t n_tokens)
{
    return n_tokens / options->block_tokens + (n_tokens % options->block_tokens != 0);
}

uint32_t schedule_blocks(const struct schedule *schedule, const struct schedule_entry *entry,
                         uint32_t n_tokens)
{
    const struct schedule_options *options = &schedule->options;
    const uint32_t n_prompt = n_spans_of(options, entry->n_prompt);
    uint32_t n_spans = n_spans_of(options, n_tokens);
    const uint64_t n_beams = n_tokens > entry->n_prompt ? entry->n_beams : 1;
    const uint64_t n_common = (n_beams - 1) * (entry->n_prompt / options->block_tokens);
    if (options->reply_spans > 0 && n_spans > n_prompt && n_spans > options->reply_spans)
        n_spans = n_prompt > options->reply_spans ? n_prompt : options->reply_spans;
    uint64_t n = options->n_groups > 0 ? 0 : n_beams * n_spans - n_common;
    if (options->blocks_fixed > 0)
        return n_tokens > 0 ? options->blocks_fixed : 0;
    n += n_tokens > 0 ? options->blocks_beside : 0;
    for (uint32_t i = 0; i < options->n_groups; i++)
        n += options->span_limits[i] == UINT32_MAX ? n_beams * n_spans - n_common
             : n_spans < options->span_limits[i]   ? n_beams * n_spans
                                                   : n_beams * options->span_limits[i];
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

bool schedule_has_limit(const struct schedule *schedule)
{
    const struct schedule_options *options = &schedule->options;
    for (uint32_t i = 0; i < options->n_groups && options->blocks_fixed == 0; i++)
        if (options->span_limits[i] != UINT32_MAX)
            return true;
    return false;
}

/* Of so many tokens, in the groups that hold all of them. */
static uint32_t blocks_without_limit(const struct schedule_options *options, uint32_t n_tokens)
{
    uint32_t n_groups = options->n_groups == 0;
    if (options->blocks_fixed > 0)
        return 0;
    for (uint32_t i = 0; i < options->n_groups; i++)
        n_groups += options->span_limits[i] == UINT32_MAX;
    return n_tokens / options->block_tokens * n_groups;
}

/* The KV of the last token that may be generated is never computed. */
static uint32_t n_kv_at_end(const struct schedule_entry *entry)
{
    return entry->n_prompt + (entry->max_new > 0 ? entry->max_new - 1 : 0);
}

uint32_t schedule_blocks_at_end(const struct schedule *schedule, const struct schedule_entry *entry)
{
    return schedule_blocks(schedule, entry, n_kv_at_end(entry));
}

bool schedule_is_admitted(const struct schedule_entry *entry)
{
    return entry->is_known && entry->state != SCHEDULE_WAITING;
}

static struct schedule_entry *known_entry(const struct schedule *schedule, schedule_id id)
{
    assert(id < schedule->entries_max && schedule->entries[id].is_known);
    return &schedule->entries[id];
}

/* The prompt tokens that the tenant will still be charged for. */
static void promise(struct schedule *schedule, schedule_id id)
{
    struct schedule_entry *entry = &schedule->entries[id];
    uint32_t n_over = entry->n_kv > entry->n_charged ? entry->n_kv : entry->n_charged;
    uint32_t n_left = entry->n_prompt > n_over ? entry->n_prompt - n_over : 0;
    bool is_served = entry->state != SCHEDULE_WAITING && entry->state != SCHEDULE_DONE;
    uint32_t n_promised = is_served ? n_left : 0;
    fair_queue_promise(&schedule->queue, id, (int64_t)n_promised - entry->n_promised);
    entry->n_promised = n_promised;
}

/* Sets the state of a sequence that does not fetch, from the work that is left. */
static void settle(struct schedule_entry *entry)
{
    bool is_over = entry->n_kv == entry->n_tokens ||
                   (entry->max_new > 0 && entry->n_tokens == entry->n_prompt + entry->max_new);
    bool is_last = entry->n_kv >= entry->n_prompt &&
                   entry->n_kv + 1 + entry->n_ahead == entry->n_tokens;
    entry->state = is_over ? SCHEDULE_DONE : is_last ? SCHEDULE_DECODING : SCHEDULE_COMPUTING;
}

static void hold(struct schedule *schedule, schedule_id id, bool holds)
{
    const struct schedule_entry *entry = &schedule->entries[id];
    struct schedule_holding *holding = &schedule->holdings[schedule->queue.items[id].tenant];
    struct share *share = &schedule->shares.all[entry->share];
    uint32_t n_blocks = schedule_blocks_at_end(schedule, entry), one = holds ? 1 : UINT32_MAX;
    assert(holds || (holding->n_sequences > 0 && share->n_sequences > 0));
    assert(holds || share->n_blocks >= n_blocks);
    holding->n_sequences += one;
    holding->is_computing &= holding->n_sequences > 0;
    share->n_sequences += one;
    share->n_blocks = holds ? share->n_blocks + n_blocks : share->n_blocks - n_blocks;
}

/* The sequence begins or stops waiting. */
static void count_waiting(struct schedule *schedule, schedule_id id, bool waits)
{
    const struct schedule_entry *entry = &schedule->entries[id];
    struct share *share = &schedule->shares.all[entry->share];
    assert(waits || share->n_waiting > 0);
    share->n_waiting += waits ? 1 : UINT32_MAX;
    if (entry->was_paused)
        schedule->n_paused += waits ? 1 : UINT32_MAX;
    if (entry->was_paused)
        schedule->n_places += waits ? entry->n_beams : 0 - entry->n_beams;
    assert(schedule->n_paused + schedule->n_admitted <= schedule->n_places);
    assert(schedule->n_places <= schedule->options.sequences_max);
}

void schedule_start(struct schedule *schedule, schedule_id id)
{
    struct schedule_entry *entry = &schedule->entries[id];
    assert(entry->state == SCHEDULE_WAITING && entry->n_blocks == 0);
    assert(schedule->n_admitted < schedule->options.sequences_max);
    count_waiting(schedule, id, false);
    schedule->n_places += entry->n_beams;
    schedule_id *admitted = schedule->admitted;
    uint32_t at = schedule->n_admitted++;
    for (; at > 0 && fair_queue_is_before(&schedule->queue, id, admitted[at - 1]); at--)
        admitted[at] = admitted[at - 1];
    admitted[at] = id;

    fair_queue_start(&schedule->queue, id);
    entry->n_kv = entry->n_cached;
    entry->n_blocks = entry->n_granted = schedule_blocks(schedule, entry, entry->n_tokens);
    entry->is_stalled = false;
    settle(entry);
    promise(schedule, id);
    hold(schedule, id, true);
}

/* Afterwards it holds no blocks; it waits, but is not in the queue yet. */
static void give_up(struct schedule *schedule, schedule_id id)
{
    struct schedule_entry *entry = &schedule->entries[id];
    assert(schedule_is_admitted(entry));
    uint32_t at = 0;
    while (schedule->admitted[at] != id)
        at++;
    schedule->n_admitted--;
    schedule->n_places -= entry->n_beams;
    memmove(schedule->admitted + at, schedule->admitted + at + 1,
            (schedule->n_admitted - at) * sizeof *schedule->admitted);
    hold(schedule, id, false);
    entry->state = SCHEDULE_WAITING;
    entry->n_kv = entry->n_cached = entry->n_shared = entry->n_ahead = entry->n_cut = 0;
    entry->n_blocks = entry->n_granted = 0;
    promise(schedule, id);
}

void schedule_stop(struct schedule *schedule, schedule_id id)
{
    give_up(schedule, id);
    schedule->entries[id].was_paused = true;
    schedule->pauses++;
    count_waiting(schedule, id, true);
    fair_queue_return(&schedule->queue, id);
}

/* ---- requests ---- */

uint32_t schedule_share(const struct schedule_options *options, uint32_t n)
{
    return (uint32_t)(((uint64_t)n * options->tenant_share_percent + 99) / 100);
}

static enum status check_request(const struct schedule *schedule,
                                 const struct schedule_request *request, struct error *error)
{
    const struct schedule_options *options = &schedule->options;
    if (request->prompt_tokens == 0 || request->prompt_tokens > SCHEDULE_TOKENS_MAX ||
        request->max_new_tokens > SCHEDULE_TOKENS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "prompt_tokens is %u, max_new_tokens %u; wanted 1 or 0 to %u",
                         request->prompt_tokens, request->max_new_tokens, SCHEDULE_TOKENS_MAX);
    if (request->weight == 0 || request->weight > SCHEDULE_WEIGHT_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "weight is %u, wanted 1 to %u",
                         request->weight, SCHEDULE_WEIGHT_MAX);
    if (request->priority > SCHEDULE_PRIORITY_MAX || request->priority < -SCHEDULE_PRIORITY_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "priority is %d, wanted %d to %d",
                         request->priority, -SCHEDULE_PRIORITY_MAX, SCHEDULE_PRIORITY_MAX);
    if (request->n_beams > options->sequences_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "n_beams is %u, sequences_max %u",
                         request->n_beams, options->sequences_max);
    if (request->cached_tokens >= request->prompt_tokens ||
        request->blocks_shared > blocks_without_limit(options, request->cached_tokens))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "cached_tokens is %u of %u, blocks_shared %u of them",
                         request->cached_tokens, request->prompt_tokens, request->blocks_shared);
    return STATUS_OK;
}

static uint32_t beams_of(const struct schedule_request *request)
{
    return request->n_beams > 0 ? request->n_beams : 1;
}

static enum status check_room(const struct schedule *schedule,
                              const struct schedule_request *request, struct error *error)
{
    const struct schedule_options *options = &schedule->options;
    const struct share *share = shares_find(&schedule->shares, request->sharer);
    struct schedule_entry entry = {.n_beams = beams_of(request),
                                   .n_prompt = request->prompt_tokens,
                                   .max_new = request->max_new_tokens};
    uint32_t n_blocks = schedule_blocks_at_end(schedule, &entry);
    if (n_blocks > options->n_blocks)
        return error_set(error, STATUS_NO_BLOCKS,
                         "%u prompt and %u new tokens need %u blocks of %u tokens, the pool has %u",
                         request->prompt_tokens, request->max_new_tokens, n_blocks,
                         options->block_tokens, options->n_blocks);
    if (schedule->queue.n_waiting >= options->waiting_max)
        return error_set(error, STATUS_QUEUE_FULL, "%u requests wait already",
                         schedule->queue.n_waiting);
    if (share && share->n_waiting >= schedule_share(options, options->waiting_max))
        return error_set(error, STATUS_SHARE_FULL,
                         "%u requests of this sharer wait already, its share of %u",
                         share->n_waiting, options->waiting_max);
    return STATUS_OK;
}

enum status schedule_add(struct schedule *schedule, const struct schedule_request *request,
                         uint64_t now_ms, struct error *error, schedule_id *id_out)
{
    TRY(check_request(schedule, request, error));
    TRY(check_room(schedule, request, error));
    assert(schedule->n_unused > 0); /* sequences_max are admitted and under waiting_max wait */
    schedule_id id = schedule->unused[--schedule->n_unused];
    schedule->entries[id] = (struct schedule_entry){
        .is_known = true,
        .n_beams = beams_of(request),
        .needs_handover = request->needs_handover,
        .n_prompt = request->prompt_tokens,
        .max_new = request->max_new_tokens,
        .n_tokens = request->prompt_tokens,
        .n_cached = request->cached_tokens,
        .is_whole = request->is_whole,
        .n_shared = request->blocks_shared,
        .share = shares_join(&schedule->shares, request->sharer)};
    count_waiting(schedule, id, true);
    int64_t rank = (int64_t)now_ms - (int64_t)request->priority * schedule->options.aging_ms;
    fair_queue_join(&schedule->queue, id, request->tenant, request->weight, rank);
    *id_out = id;
    return STATUS_OK;
}

void schedule_remove(struct schedule *schedule, schedule_id id)
{
    struct schedule_entry *entry = known_entry(schedule, id);
    bool is_waiting = entry->state == SCHEDULE_WAITING;
    if (!is_waiting)
        give_up(schedule, id);
    fair_queue_leave(&schedule->queue, id, is_waiting);
    if (is_waiting)
        count_waiting(schedule, id, false);
    shares_leave(&schedule->shares, entry->share);
    entry->is_known = false;
    schedule->unused[schedule->n_unused++] = id;
}

void schedule_close(struct schedule *schedule, schedule_id id)
{
    struct schedule_entry *entry = known_entry(schedule, id);
    assert(schedule_is_admitted(entry) && entry->state != SCHEDULE_FETCHING);
    entry->state = SCHEDULE_DONE;
    entry->is_stalled = false;
    promise(schedule, id);
}

void schedule_set_prefix(struct schedule *schedule, schedule_id id, uint32_t cached_tokens,
                         uint32_t blocks_shared)
{
    struct schedule_entry *entry = known_entry(schedule, id);
    assert(cached_tokens < entry->n_tokens);
    assert(blocks_shared <= blocks_without_limit(&schedule->options, cached_tokens));
    bool is_waiting = entry->state == SCHEDULE_WAITING;
    assert(is_waiting || entry->n_kv == entry->n_cached);
    entry->n_cached = cached_tokens;
    entry->n_shared = blocks_shared;
    if (is_waiting)
        return;
    entry->n_kv = cached_tokens;
    if (entry->state != SCHEDULE_FETCHING)
        settle(entry);
    promise(schedule, id);
}

void schedule_set_cut(struct schedule *schedule, schedule_id id, uint32_t n_tokens)
{
    struct schedule_entry *entry = known_entry(schedule, id);
    assert(schedule_is_admitted(entry));
    assert(n_tokens % schedule->options.block_tokens == 0 && "chunks are whole blocks");
    entry->n_cut = n_tokens;
}

void schedule_hold(struct schedule *schedule, schedule_id id, bool is_held)
{
    struct schedule_entry *entry = &schedule->entries[id];
    assert(entry->is_known && entry->state == SCHEDULE_WAITING);
    entry->is_held = is_held;
}

void schedule_fetch(struct schedule *schedule, schedule_id id)
{
    struct schedule_entry *entry = known_entry(schedule, id);
    assert(entry->state == SCHEDULE_COMPUTING && entry->n_kv == entry->n_cached);
    assert(entry->n_kv < entry->n_prompt);
    entry->state = SCHEDULE_FETCHING;
}

/* Sequences that a token of it is computed for. */
static uint32_t n_computing(const struct schedule_entry *entry)
{
    return entry->state == SCHEDULE_DECODING ? entry->n_beams : 1;
}

static void advance(struct schedule *schedule, schedule_id id, uint32_t n_tokens)
{
    struct schedule_entry *entry = &schedule->entries[id];
    uint32_t n_before = entry->n_kv > entry->n_charged ? entry->n_kv : entry->n_charged;
    entry->n_kv += n_tokens;
    entry->n_ahead -= n_tokens < entry->n_ahead ? n_tokens : entry->n_ahead;
    assert(entry->n_kv <= entry->n_tokens && entry->n_kv <= n_kv_at_end(entry));
    uint32_t n_first = entry->n_kv > n_before ? entry->n_kv - n_before : 0;
    entry->n_charged = n_before + n_first;
    schedule->tokens_again += n_tokens - n_first;
    fair_queue_charge(&schedule->queue, id, n_first * n_computing(entry));
    if (entry->state == SCHEDULE_COMPUTING) {
        uint64_t unit = fair_queue_tenant_of(&schedule->queue, id)->unit;
        schedule->holdings[schedule->queue.items[id].tenant].chunk_time += n_tokens * unit;
        schedule->n_chunk_tokens += n_tokens;
    }
    promise(schedule, id);
}

void schedule_fetched(struct schedule *schedule, schedule_id id)
{
    struct schedule_entry *entry = known_entry(schedule, id);
    assert(entry->state == SCHEDULE_FETCHING);
    advance(schedule, id, entry->n_prompt - entry->n_kv);
    settle(entry);
}

void schedule_fetch_failed(struct schedule *schedule, schedule_id id)
{
    struct schedule_entry *entry = known_entry(schedule, id);
    assert(entry->state == SCHEDULE_FETCHING);
    settle(entry);
}

void schedule_pause(struct schedule *schedule, schedule_id id)
{
    known_entry(schedule, id);
    schedule_stop(schedule, id);
}

void schedule_computed(struct schedule *schedule, schedule_id id, uint32_t n_tokens, uint32_t n_new)
{
    struct schedule_entry *entry = known_entry(schedule, id);
    bool is_fetching = entry->state == SCHEDULE_FETCHING;
    assert(schedule_is_admitted(entry) && (!is_fetching || n_tokens == 0));
    assert(entry->state != SCHEDULE_DONE && "nothing of it is in a batch");
    if (n_tokens > 0)
        entry->n_blocks = entry->n_granted;
    advance(schedule, id, n_tokens);
    assert(n_new == 0 || is_fetching || entry->n_kv == entry->n_tokens);
    assert(n_new <= entry->n_prompt + entry->max_new - entry->n_tokens);
    entry->n_tokens += n_new;
    if (!is_fetching)
        settle(entry);
}

void schedule_restart(struct schedule *schedule, schedule_id id)
{
    struct schedule_entry *entry = known_entry(schedule, id);
    assert(entry->state == SCHEDULE_WAITING || entry->state == SCHEDULE_FETCHING);
    assert(entry->n_kv <= entry->n_prompt && entry->n_ahead == 0);
    entry->n_tokens = entry->n_prompt;
}

void schedule_run_ahead(struct schedule *schedule, schedule_id id)
{
    struct schedule_entry *entry = known_entry(schedule, id);
    assert(entry->state == SCHEDULE_DECODING);
    assert(entry->n_tokens < entry->n_prompt + entry->max_new);
    entry->n_tokens++;
    entry->n_ahead++;
    settle(entry);
}

void schedule_took(struct schedule *schedule, uint64_t step_ns)
{
    pace_took(&schedule->pace, schedule->n_chunk_tokens, step_ns);
    schedule->n_chunk_tokens = 0;
}

/* ---- statistics ---- */

uint64_t schedule_token_ns(const struct schedule *schedule)
{
    return pace_token_ns(&schedule->pace);
}

void schedule_count(const struct schedule *schedule, struct schedule_counts *counts_out)
{
    struct schedule_counts counts = {.n_waiting = schedule->queue.n_waiting,
                                     .n_admitted = schedule->n_admitted,
                                     .pauses = schedule->pauses,
                                     .tokens_again = schedule->tokens_again};
    for (schedule_id id = 0; id < schedule->entries_max; id++) {
        const struct schedule_entry *entry = &schedule->entries[id];
        if (!entry->is_known)
            continue;
        bool is_waiting = entry->state == SCHEDULE_WAITING;
        bool is_done = entry->state == SCHEDULE_DONE;
        uint32_t n_past = is_waiting ? entry->n_cached : is_done ? entry->n_prompt : entry->n_kv;
        counts.n_paused += is_waiting && entry->was_paused;
        counts.n_fetching += entry->state == SCHEDULE_FETCHING;
        counts.n_computing += entry->state == SCHEDULE_COMPUTING;
        counts.n_decoding += entry->state == SCHEDULE_DECODING;
        counts.n_done += entry->state == SCHEDULE_DONE;
        counts.waiting_tokens += entry->n_prompt > n_past ? entry->n_prompt - n_past : 0;
    }
    *counts_out = counts;
}

enum schedule_state schedule_state_of(const struct schedule *schedule, schedule_id id)
{
    return known_entry(schedule, id)->state;
}
