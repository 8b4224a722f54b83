#include "ctx_worker/fair_share.h"

struct holding {
    uint32_t n_slots, n_blocks;
};

/* Rounded up, so that it is never nothing. */
static uint32_t share_of(const struct ctx_engine_options *options, uint32_t n)
{
    return (uint32_t)(((uint64_t)n * options->caller_share + 99) / 100);
}

bool fair_share_may_wait(const struct ctx_engine_options *options,
                         const struct request_queue *queue, uint64_t caller)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < request_queue_count(queue); i++)
        n += prompt_of(request_queue_at(queue, i))->caller == caller;
    return n < share_of(options, options->queue_max);
}

static struct holding holding_of(const struct ctx_engine_options *options,
                                 const struct prefill *prefills, uint64_t caller)
{
    struct holding holding = {0};
    for (uint32_t i = 0; i < options->slots_max; i++) {
        const struct prefill *prefill = &prefills[i];
        if (prefill->state == PREFILL_FREE || prefill->caller != caller)
            continue;
        holding.n_slots++;
        holding.n_blocks += prefill->table.n_blocks + prefill->n_fenced;
    }
    return holding;
}

/* What the prompt may find in the prefix cache is not asked: it counts as if it found nothing. */
static bool may_start(const struct ctx_engine_options *options, const struct prompt *prompt,
                      const struct holding *holding)
{
    const struct block_pool *pool = options->pool;
    uint32_t n_blocks = block_pool_size(pool);
    uint32_t n_kept = n_blocks - share_of(options, n_blocks);
    uint32_t n_left = block_pool_count(pool, BLOCK_FREE) + block_pool_count(pool, BLOCK_CACHED);
    if (holding->n_slots == 0)
        return true;
    return holding->n_slots < share_of(options, options->slots_max) &&
           n_left >= n_kept + geometry_blocks(&options->geometry, prompt->request.n_tokens);
}

/* A younger prompt never overtakes one of the same caller. */
static bool is_oldest(const struct request_queue *queue, uint32_t index)
{
    uint64_t caller = prompt_of(request_queue_at(queue, index))->caller;
    for (uint32_t i = 0; i < index; i++)
        if (prompt_of(request_queue_at(queue, i))->caller == caller)
            return false;
    return true;
}

uint32_t fair_share_next(const struct ctx_engine_options *options,
                         const struct request_queue *queue, const struct prefill *prefills,
                         uint64_t last_caller)
{
    uint32_t next = NO_PROMPT, fewest = UINT32_MAX;
    bool had_last = false; /* the caller of next */
    for (uint32_t i = 0; i < request_queue_count(queue); i++) {
        if (!is_oldest(queue, i))
            continue;
        const struct prompt *prompt = prompt_of(request_queue_at(queue, i));
        struct holding holding = holding_of(options, prefills, prompt->caller);
        bool is_before = holding.n_blocks < fewest || (holding.n_blocks == fewest && had_last);
        if (is_before && may_start(options, prompt, &holding)) {
            next = i;
            fewest = holding.n_blocks;
            had_last = prompt->caller == last_caller;
        }
    }
    return next;
}
