#include "kernels/cpu/attention/dummy.h"

#include "kernels/cpu/attention/attend.h"
#include "kernels/cpu/attention/attend_whole.h"
#include "kernels/cpu/attention/kv_update_step.h"
#include "kernels/cpu/attention/output.h"
#include "kernels/cpu/attention/plan.h"
#include "kernels/cpu/parallel.h"

#include <assert.h>
#include <string.h>

/* The bytes of the scores of a context whose path stores them. */
static size_t stored_bytes(const struct attention_call *call, const struct plan *plan)
{
    const struct attention_workspace *workspace = call->metadata->workspace;
    const enum attention_path path = call->attention->host.config.path;
    size_t most = 0;
    for (uint32_t b = 0; b < plan->n_blocks; b++) {
        const struct row_block *block = &workspace->blocks[b];
        size_t n = (size_t)block->n_rows * whole_keys(block->end_key);
        if (call->metadata->sequences[block->sequence].phase == PHASE_CONTEXT && n > most)
            most = n;
    }
    return path == PATH_UNFUSED || path == PATH_SHORT ? most * sizeof(float) : 0;
}

/* Touches the whole scratch, but only n_stored bytes of the stored scores: the scratch may have room for far more
 * scores than a step uses. */
static void touch_scratch(const struct attention_metadata *metadata, uint32_t index,
                          size_t n_stored)
{
    struct attention_workspace *workspace = metadata->workspace;
    const struct attend_scratch scratch = workspace_scratch(metadata, index);
    char *base = workspace->scratches + index * workspace->scratch_bytes;
    char *stored = (char *)scratch.stored;
    char *behind = stored + (size_t)UNFUSED_ROWS * whole_keys(metadata->limits.kv_len_max) *
                                sizeof *scratch.stored;
    memset(base, 0, (size_t)(stored - base) + n_stored);
    memset(behind, 0, (size_t)(base + workspace->scratch_bytes - behind));
}

void dummy_run(const struct attention_call *call)
{
    const struct attention_metadata *metadata = call->metadata;
    struct attention_workspace *workspace = metadata->workspace;
    assert(metadata->is_dummy);
    const struct plan plan = plan_make(call);
    uint32_t n_threads = parallel_threads(call->attention->pool, plan.work);
    for (uint32_t i = 0; i < n_threads && i < plan.n_tasks; i++)
        touch_scratch(metadata, i, stored_bytes(call, &plan));
    memset(workspace->partials, 0,
           attend_partial_floats(metadata->limits.head_dim, plan.n_partials) * sizeof(float));
    if (workspace->staged)
        memset(workspace->staged, 0, metadata->n_kv_tokens * staged_stride(&call->attention->host));
    output_empty(call, 0);
}
