/*
 * kv_update - the operator of kernels/kv_update.h on the CPU: each task computes a run of rows.
 */
#include "kernels/kv_update.h"

#include "kernels/backend/attention_layer.h"
#include "kernels/backend/kv_address.h"
#include "kernels/cpu/layer/kv_update_head.h"
#include "kernels/cpu/parallel.h"

enum { RUN_ROWS = 16, WORK_OF_ELEMENT = 4 };

static void write_row(const struct kv_update *update, uint32_t sequence, uint32_t token,
                      uint64_t row)
{
    uint32_t slot = kv_slot(token, update->window, update->sink_tokens);
    const uint32_t *block_ids = update->block_ids
                                    ? update->block_ids + (size_t)sequence * update->n_blocks
                                    : &sequence;
    struct kv_heads heads = kv_heads_of_update(update, token, row);
    for (uint32_t h = 0; h < update->n_kv_heads; h++) {
        char *k = kv_slot_address(&update->kv, update->layer_index, block_ids, h, slot);
        kv_update_head(&heads.k, k);
        kv_update_head(&heads.v, k + update->kv.kv_stride);
        kv_heads_next(&heads);
    }
}

/* Writes the rows from index * RUN_ROWS on, counted over all sequences without padding. */
static void write_run(void *arg, uint32_t index)
{
    const struct kv_update *update = arg;
    uint64_t begin = (uint64_t)index * RUN_ROWS, end = begin + RUN_ROWS;
    uint64_t first = 0; /* the first row of the sequence */
    for (uint32_t s = 0; s < update->n_sequences && first < end; s++) {
        uint64_t stop = first + update->lens[s];
        uint64_t first_row = update->padded_len ? (uint64_t)s * update->padded_len : first;
        uint64_t last_token = (uint64_t)update->write_indices[s] + update->lens[s];
        for (uint64_t r = first > begin ? first : begin; r < stop && r < end; r++) {
            uint32_t token = (uint32_t)(update->write_indices[s] + (r - first));
            if (!kv_update_is_overwritten(update, token, last_token))
                write_row(update, s, token, first_row + (r - first));
        }
        first = stop;
    }
}

void cpu_kv_update(struct thread_pool *pool, const struct kv_update *update)
{
    uint64_t n_rows = 0;
    for (uint32_t s = 0; s < update->n_sequences; s++)
        n_rows += update->lens[s];
    uint64_t work = n_rows * update->n_kv_heads * update->head_dim * WORK_OF_ELEMENT;
    parallel_run(pool, work, (uint32_t)((n_rows + RUN_ROWS - 1) / RUN_ROWS), write_run,
                 (void *)(uintptr_t)update);
}
