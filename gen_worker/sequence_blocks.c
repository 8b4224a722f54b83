#include "gen_worker/sequence_blocks.h"

#include "model/forward/forward.h"
#include "schedule/schedule.h"

#include <assert.h>

/* ---- taken ---- */

uint32_t sequence_lookup_blocks(const struct sequence *sequence)
{
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

enum status sequence_grow(struct sequence *sequence, uint32_t n_blocks)
{
    struct block_table *table = &sequence->table;
    assert(n_blocks <= table->blocks_max && "the schedule knows how long it may become");
    return block_table_grow(table, n_blocks * table->block_tokens);
}

static void mark_admitted(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    uint64_t wait_us = (now_ns - sequence->marks.arrived_ns) / NS_PER_US;
    sequence->marks.admitted_ns = now_ns;
    sequence->timing = (struct gen_timing){.queue_us = wait_us, .wait_us = wait_us};
    home->stats->prefix_query_tokens += sequence_n_prompt(sequence);
}

enum status sequence_take_blocks(struct sequence *sequence, const struct gen_home *home,
                                 uint32_t n_blocks, uint64_t now_ns)
{
    assert(sequence->state == SEQUENCE_PAUSED && sequence->table.n_blocks == 0);
    struct block_table *table = &sequence->table;
    uint32_t n_lookup = sequence_lookup_blocks(sequence), n_held = 0, n_cached = 0;
    if (home->tree) {
        (void)prefix_tree_peek_held(home->tree, sequence->hashes, n_lookup, &n_held);
        n_cached = block_table_match(table, sequence->hashes, n_lookup);
    }
    enum status status = sequence_grow(sequence, n_blocks);
    if (status != STATUS_OK) {
        block_table_clear(table);
        return status;
    }
    assert(table->n_blocks == n_blocks && n_held <= table->n_shared);
    if (sequence->marks.admitted_ns == 0)
        mark_admitted(sequence, home, now_ns);
    sequence->state = SEQUENCE_RESERVED;
    sequence->n_kv = n_cached;
    assert(n_cached < sequence->n_tokens);
    assert(!sequence->must_verify || n_cached < sequence_n_prompt(sequence));
    count_cached(sequence, home);
    schedule_set_prefix(home->schedule, sequence->job->request.schedule_id, n_cached, n_held);
    return STATUS_OK;
}

/* ---- kept ---- */

void sequence_keep_prompt(struct sequence *sequence, const struct gen_home *home)
{
    assert(sequence->n_kv >= sequence_n_prompt(sequence));
    assert(sequence_n_prompt(sequence) <= sequence->table.n_blocks * sequence->table.block_tokens);
    if (home->tree && !sequence->has_other_kv)
        prefix_tree_insert(home->tree, sequence->hashes, sequence->table.blocks,
                           sequence_n_prompt(sequence) / sequence->table.block_tokens);
}

/* Hashes the whole blocks of all known tokens. */
static void hash_tokens(struct sequence *sequence, const struct gen_home *home)
{
    const struct engine_request *request = &sequence->job->request;
    if (home->tree)
        prefix_hash_blocks(&home->options->prefix_key, request->salt, request->salt_bytes,
                           sequence->tokens, sequence->n_tokens, sequence->table.block_tokens,
                           sequence->hashes);
}

/* Leading tokens whose KV has the bits that a later prompt would compute. Generated tokens are among them only where prefill and
 * decode compute the same bits. */
static uint32_t n_lasting(const struct sequence *sequence, const struct gen_home *home)
{
    const uint32_t n_prompt = sequence_n_prompt(sequence);
    bool is_all = sequence->n_kv <= n_prompt || forward_phases_agree(home->options->forward);
    return is_all ? sequence->n_kv : n_prompt;
}

void sequence_keep_all(struct sequence *sequence, const struct gen_home *home)
{
    assert(sequence->n_kv <= sequence->n_tokens); /* equal where a step drew no token */
    assert(sequence->n_kv / sequence->table.block_tokens <= sequence->table.n_blocks);
    hash_tokens(sequence, home);
    if (home->tree && !sequence->has_other_kv)
        prefix_tree_insert(home->tree, sequence->hashes, sequence->table.blocks,
                           n_lasting(sequence, home) / sequence->table.block_tokens);
}

void sequence_forget(struct sequence *sequence, const struct gen_home *home)
{
    const uint32_t block_tokens = sequence->table.block_tokens;
    const uint32_t first = sequence->n_cached / block_tokens;
    hash_tokens(sequence, home);
    if (home->tree && first < sequence->n_tokens / block_tokens)
        (void)prefix_tree_forget(home->tree, sequence->hashes[first]);
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

void sequence_pause(struct sequence *sequence, const struct gen_home *home)
{
    struct block_table *table = &sequence->table;
    assert(sequence_is_runnable(sequence) && !sequence->handover);
    uint32_t n_used = geometry_blocks(&home->options->geometry, sequence->n_kv);
    assert(n_used <= table->n_blocks);
    for (uint32_t i = 0; i < n_used; i++)
        if (block_pool_origin(table->pool, table->blocks[i]) != 0)
            remember_origin(sequence, block_pool_origin(table->pool, table->blocks[i]));
    sequence_keep_all(sequence, home);
    block_table_clear(table);
    sequence->job->lookup_at = 0; /* the schedule has forgotten its prefix */
    sequence->n_kv = sequence->n_ahead = 0;
    sequence->has_other_kv = false;
    sequence->state = SEQUENCE_PAUSED;
}

bool sequence_has_used(const struct sequence *sequence, uint64_t incarnation)
{
    const struct block_table *table = &sequence->table;
    for (uint32_t i = 0; i < sequence->n_origins && i < SEQUENCE_ORIGINS_MAX; i++)
        if (sequence->origins[i] == incarnation)
            return true;
    for (uint32_t i = 0; i < table->n_blocks; i++)
        if (block_pool_origin(table->pool, table->blocks[i]) == incarnation)
            return true;
    return sequence->n_origins > SEQUENCE_ORIGINS_MAX;
}
