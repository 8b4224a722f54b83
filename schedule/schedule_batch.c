/* Chooses the work of the next step: decodes first, then chunks of prompts with the rest of the batch's
 * tokens. */
#include "schedule/schedule_state.h"

#include <assert.h>

static bool computes(const struct schedule_entry *entry, enum schedule_state state)
{
    return entry->state == state && !entry->is_stalled;
}

static void add_work(struct schedule *schedule, struct schedule_batch *batch, schedule_id id,
                     uint32_t n_tokens)
{
    const struct schedule_entry *entry = &schedule->entries[id];
    const uint32_t n_beams = entry->state == SCHEDULE_DECODING ? entry->n_beams : 1;
    assert(n_tokens > 0 && batch->n < schedule->options.sequences_max);
    uint32_t n_kv = entry->n_kv + n_tokens;
    assert(schedule_blocks(schedule, entry, entry->n_tokens) <= entry->n_granted);
    schedule->work[batch->n++] = (struct schedule_work){.id = id,
                                                        .first = entry->n_kv,
                                                        .n_tokens = n_tokens,
                                                        .n_known = entry->n_tokens,
                                                        .n_blocks = entry->n_granted,
                                                        .draws = n_kv == entry->n_tokens};
    batch->n_tokens += n_tokens * n_beams;
}

/* The most of one sequence in a step. Where a group of layers has a limit, what begins inside a span ends with it: blocks for more
 * spans are only kept aside for what begins with a span. */
static uint32_t tokens_max(const struct schedule *schedule, const struct schedule_entry *entry)
{
    const uint32_t past = entry->n_kv % schedule->options.block_tokens;
    return past > 0 && schedule_has_limit(schedule) ? schedule->options.block_tokens - past
                                                    : UINT32_MAX;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- decodes ---- */

static bool is_after_turn(const struct schedule *schedule, schedule_id id)
{
    const struct fair_item *item = &schedule->queue.items[id];
    return item->rank > schedule->turn_rank ||
           (item->rank == schedule->turn_rank && item->seq > schedule->turn_seq);
}

/* The tokens of all decodes. */
static uint64_t count_decodes(const struct schedule *schedule)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < schedule->n_admitted; i++) {
        const struct schedule_entry *entry = &schedule->entries[schedule->admitted[i]];
        n += computes(entry, SCHEDULE_DECODING) ? entry->n_beams + entry->n_ahead : 0;
    }
    return n;
}

/* Decodes of up to n_max tokens by rank; if there are more, in a circle from where the last batch stopped. Returns how many. */
static uint32_t choose_decodes(struct schedule *schedule, uint32_t n_max, uint32_t *n_tokens_out)
{
    uint32_t n_admitted = schedule->n_admitted, start = 0, n = 0, n_tokens = 0;
    bool is_too_much = count_decodes(schedule) > n_max;
    while (is_too_much && schedule->has_turn && start < n_admitted &&
           !is_after_turn(schedule, schedule->admitted[start]))
        start++;
    for (uint32_t i = 0; i < n_admitted && n_tokens < n_max; i++) {
        schedule_id id = schedule->admitted[(start + i) % n_admitted];
        struct schedule_entry *entry = &schedule->entries[id];
        if (!computes(entry, SCHEDULE_DECODING) || entry->n_beams > n_max - n_tokens)
            continue;
        const uint32_t n_left = smaller(n_max - n_tokens, tokens_max(schedule, entry));
        entry->n_chosen = smaller(1 + entry->n_ahead, n_left);
        n_tokens += entry->n_chosen * entry->n_beams;
        schedule->decodes[n++] = id;
    }
    schedule->has_turn = is_too_much;
    if (is_too_much) {
        const struct fair_item *last = &schedule->queue.items[schedule->decodes[n - 1]];
        schedule->turn_rank = last->rank;
        schedule->turn_seq = last->seq;
    }
    *n_tokens_out = n_tokens;
    return n;
}

/* Those that ran ahead, or those that did not. */
static void add_decodes(struct schedule *schedule, struct schedule_batch *batch, uint32_t n,
                        bool ran_ahead)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct schedule_entry *entry = &schedule->entries[schedule->decodes[i]];
        if ((entry->n_ahead > 0) == ran_ahead)
            add_work(schedule, batch, schedule->decodes[i], entry->n_chosen);
    }
}

/* ---- chunks ---- */

/* The tokens up to the last block boundary within budget and chunk, or up to the end; 0: less than
 * one block. */
static uint32_t chunk_of(const struct schedule *schedule, const struct schedule_entry *entry,
                         uint32_t budget)
{
    const bool is_cut = entry->n_cut > entry->n_kv && entry->n_cut < entry->n_tokens;
    const uint32_t n_left = (is_cut ? entry->n_cut : entry->n_tokens) - entry->n_kv;
    const uint32_t n_max = smaller(smaller(budget, schedule->options.chunk_tokens),
                                   tokens_max(schedule, entry));
    if (n_left <= n_max || entry->is_whole)
        return n_left <= n_max ? n_left : 0;
    uint32_t past_block = (entry->n_kv + n_max) % schedule->options.block_tokens;
    return n_max > past_block ? n_max - past_block : 0;
}

/* Makes a list of the prompts of each tenant, by rank. */
static void list_prompts(struct schedule *schedule)
{
    const struct fair_queue *queue = &schedule->queue;
    for (uint32_t i = 0; i < queue->n_tenants; i++)
        schedule->holdings[i].first = schedule->holdings[i].last = FAIR_NONE;
    for (uint32_t i = 0; i < schedule->n_admitted; i++) {
        schedule_id id = schedule->admitted[i];
        struct schedule_entry *entry = &schedule->entries[id];
        struct schedule_holding *holding = &schedule->holdings[queue->items[id].tenant];
        if (!computes(entry, SCHEDULE_COMPUTING))
            continue;
        entry->next = FAIR_NONE;
        if (holding->first == FAIR_NONE)
            holding->first = id;
        else
            schedule->entries[holding->last].next = id;
        holding->last = id;
    }
}

/* The least time of the tenants that computed prompts in the last batch and still do; UINT64_MAX:
 * none. */
static uint64_t least_chunk_time(const struct schedule *schedule)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < schedule->queue.n_tenants; i++) {
        const struct schedule_holding *holding = &schedule->holdings[i];
        if (holding->first != FAIR_NONE && holding->is_computing && holding->chunk_time < least)
            least = holding->chunk_time;
    }
    return least;
}

/* A tenant that begins to compute prompts gets a time just before the tenant that got least. With its time
 * in the queue, which admissions advance before anything is computed, it would wait for all earlier
 * admissions. */
static void add_prompt_turns(struct schedule *schedule)
{
    const struct fair_queue *queue = &schedule->queue;
    uint64_t least = least_chunk_time(schedule);
    uint64_t start = least == UINT64_MAX || least == 0 ? 0 : least - 1;
    fair_turns_clear(&schedule->turns);
    for (uint32_t i = 0; i < queue->n_tenants; i++) {
        struct schedule_holding *holding = &schedule->holdings[i];
        bool was_computing = holding->is_computing;
        holding->is_computing = holding->first != FAIR_NONE;
        if (!holding->is_computing)
            continue;
        if (!was_computing)
            holding->chunk_time = start;
        fair_turns_add(&schedule->turns,
                       &(struct fair_turn){.key = holding->chunk_time,
                                           .seq = queue->items[holding->first].seq,
                                           .tenant = i});
    }
}

/* At most one chunk of each prompt; a tenant's chunk counts for its next turn. */
static void add_chunks(struct schedule *schedule, struct schedule_batch *batch, uint32_t budget)
{
    const struct fair_queue *queue = &schedule->queue;
    const struct fair_turn *turn;
    while ((turn = fair_turns_first(&schedule->turns))) {
        struct schedule_holding *holding = &schedule->holdings[turn->tenant];
        schedule_id id = holding->first;
        uint32_t n_tokens = chunk_of(schedule, &schedule->entries[id], budget);
        if (n_tokens == 0)
            return;
        add_work(schedule, batch, id, n_tokens);
        budget -= n_tokens;
        holding->first = schedule->entries[id].next;
        if (holding->first == FAIR_NONE)
            fair_turns_drop_first(&schedule->turns);
        else
            fair_turns_move_first(&schedule->turns,
                                  turn->key +
                                      (uint64_t)n_tokens * queue->tenants[turn->tenant].unit,
                                  queue->items[holding->first].seq);
    }
}

void schedule_batch(struct schedule *schedule, struct schedule_batch *batch_out)
{
    struct schedule_batch batch = {.work = schedule->work};
    uint32_t budget = schedule->options.batch_tokens;
    list_prompts(schedule);
    add_prompt_turns(schedule);
    uint32_t n_kept = fair_turns_first(&schedule->turns) ? schedule->options.block_tokens : 0;
    uint32_t n_decode_tokens;
    uint32_t n_decodes = choose_decodes(schedule, budget - n_kept, &n_decode_tokens);
    uint32_t n_fit = pace_tokens(&schedule->pace), n_left = budget - n_decode_tokens;
    add_chunks(schedule, &batch, n_fit < n_left ? n_fit : n_left);
    add_decodes(schedule, &batch, n_decodes, true);
    batch.n_chunks = batch.n;
    add_decodes(schedule, &batch, n_decodes, false);
    assert(batch.n_tokens <= budget);
    *batch_out = batch;
}
