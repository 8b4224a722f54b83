#include "kernels/cpu/attention/plan.h"

#include "kernels/backend/attention_metadata.h"
#include "kernels/backend/attention_step_check.h"
#include "kernels/cpu/attention/attend_whole.h"
#include "kernels/cpu/parallel.h"

#include <assert.h>

enum { BLOCKS_PER_THREAD = 4 }; /* this many equal pieces for each thread balance the load */

static uint32_t block_rows_max(const struct attention_config *config, enum attention_phase phase)
{
    if (phase == PHASE_GENERATION)
        return ROWS_MAX;
    switch (config->path) {
    case PATH_UNFUSED:
        return UNFUSED_ROWS;
    case PATH_SHORT:
        return SHORT_ROWS;
    case PATH_AUTO:
    case PATH_FLASH:
        break;
    }
    return ROWS_MAX;
}

static uint64_t block_work(const struct attention_call *call, const struct row_block *block)
{
    return (uint64_t)block->n_rows * (block->end_key - block->first_key) *
           call->attention->host.config.head_dim * 2;
}

/* Adds a block of rows of one beam: finds its keys and its work. */
static void add_block(const struct attention_call *call, struct row_block block, struct plan *plan)
{
    struct attention_workspace *workspace = call->metadata->workspace;
    const struct query_row first = query_row_at(call, &block, 0);
    const struct query_row last = query_row_at(call, &block, block.n_rows - 1);
    assert(plan->n_blocks < workspace->n_blocks_max);
    block.first_key = first.first;
    block.end_key = last.end;
    plan->work += block_work(call, &block);
    workspace->blocks[plan->n_blocks++] = block;
}

/* Rows are the outer loop, heads the inner one: so the blocks of a sequence that see most keys are neighbours. */
static void add_beam(const struct attention_call *call, uint32_t s, uint32_t beam,
                     struct plan *plan)
{
    const struct attention_layer *layer = &call->attention->host;
    const struct attention_sequence *sequence = &call->metadata->sequences[s];
    bool is_grouped = sequence->phase == PHASE_CONTEXT || layer->config.grouped != CHOICE_OFF;
    uint32_t n_heads = is_grouped ? layer->group : 1;
    uint32_t rows_max = block_rows_max(&layer->config, sequence->phase);
    uint32_t n_rows = sequence->query_len * n_heads;
    assert(rows_max > 0 && n_heads > 0 && layer->config.n_heads % n_heads == 0);
    for (uint32_t row = 0; row < n_rows; row += rows_max)
        for (uint32_t head = 0; head < layer->config.n_heads; head += n_heads) {
            struct row_block block = {
                .sequence = s,
                .beam = beam,
                .kv_head = head / layer->group,
                .first_head = head,
                .n_heads = n_heads,
                .row = row,
                .n_rows = n_rows - row < rows_max ? n_rows - row : rows_max,
            };
            add_block(call, block, plan);
        }
}

/* Whether the ranges of a block become several tasks. For a generation: always, never, or (AUTO) if the work of the block
 * is more than a fair share of the step, as with few rows, or with one row that is far longer than the others. For a
 * context: only if its work is more than a fair share, and not if its scores are stored. */
static bool wants_split(const struct attention_call *call, const struct row_block *block,
                        uint64_t fair_share)
{
    const struct attention_config *config = &call->attention->host.config;
    bool is_scarce = block_work(call, block) > fair_share;
    if (block_n_ranges(block) < 2)
        return false;
    if (call->metadata->sequences[block->sequence].phase == PHASE_CONTEXT)
        return is_scarce && (config->path == PATH_AUTO || config->path == PATH_FLASH);
    return config->multi_block == CHOICE_ON || (config->multi_block == CHOICE_AUTO && is_scarce);
}

/* The number of ranges in a task, about a fair share of the work. It is 1 if a fair share is less than one range or the
 * whole block, as with a forced split. */
static uint32_t share_ranges(const struct attention_call *call, const struct row_block *block,
                             uint64_t fair_share)
{
    const uint32_t n_ranges = block_n_ranges(block);
    assert(n_ranges > 1);
    uint64_t n = fair_share / (block_work(call, block) / n_ranges);
    return n > 0 && n < n_ranges ? (uint32_t)n : 1;
}

/* The end of the partials that this block may use. Blocks of layers with multi_block ON may use all of them, others only
 * the shared ones. */
static uint32_t partials_end(const struct attention_call *call, const struct row_block *block)
{
    const struct attention_workspace *workspace = call->metadata->workspace;
    bool is_always = call->metadata->sequences[block->sequence].phase == PHASE_GENERATION &&
                     call->attention->host.config.multi_block == CHOICE_ON;
    return is_always ? workspace->n_partials : workspace->n_shared_partials;
}

/* Numbers the tasks of each block. Split blocks get a place for their partials; without room a block is not split. */
static void split_blocks(const struct attention_call *call, uint64_t fair_share, struct plan *plan)
{
    struct attention_workspace *workspace = call->metadata->workspace;
    uint32_t n_partials = 0;
    for (uint32_t b = 0; b < plan->n_blocks; b++) {
        struct row_block *block = &workspace->blocks[b];
        uint32_t n_ranges = block_n_ranges(block);
        uint64_t n_rows = (uint64_t)n_ranges * block->n_rows;
        block->first_task = plan->n_tasks;
        block->is_split = wants_split(call, block, fair_share) &&
                          n_partials + n_rows <= partials_end(call, block);
        if (!block->is_split) {
            plan->n_tasks++;
            continue;
        }
        block->task_ranges = share_ranges(call, block, fair_share);
        uint32_t n_tasks = (n_ranges + block->task_ranges - 1) / block->task_ranges;
        plan->n_tasks += n_tasks;
        block->first_partial = n_partials;
        n_partials += (uint32_t)n_rows;
        plan->n_partials = n_partials;
        atomic_store_explicit(&workspace->tasks_left[b], n_tasks, memory_order_relaxed);
    }
}

struct plan plan_make(const struct attention_call *call)
{
    const struct attention_metadata *metadata = call->metadata;
    struct plan plan = {0};
    for (uint32_t s = 0; s < metadata_n_real_sequences(metadata); s++)
        for (uint32_t beam = 0; beam < sequence_n_beams(&metadata->sequences[s]); beam++)
            add_beam(call, s, beam, &plan);
    uint32_t n_threads = parallel_threads(call->attention->pool, plan.work);
    split_blocks(call, n_threads > 1 ? plan.work / (BLOCKS_PER_THREAD * n_threads) : UINT64_MAX,
                 &plan);
    assert(plan.n_tasks >= plan.n_blocks);
    assert(plan.n_partials <= metadata->workspace->n_partials);
    return plan;
}
