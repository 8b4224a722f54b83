#include "kernels/kv_update.h"

#include "kernels/backend/attention_layer.h"
#include "kernels/backend/kv_address.h"
#include "kernels/reference/head.h"
#include "kernels/reference/reference.h"

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
        head_update(&heads.k, k);
        head_update(&heads.v, k + update->kv.kv_stride);
        kv_heads_next(&heads);
    }
}

void reference_kv_update(struct thread_pool *pool, const struct kv_update *update)
{
    (void)pool;
    uint64_t n_rows = 0;
    for (uint32_t s = 0; s < update->n_sequences; s++) {
        uint64_t first = update->padded_len ? (uint64_t)s * update->padded_len : n_rows;
        for (uint32_t i = 0; i < update->lens[s]; i++)
            write_row(update, s, update->write_indices[s] + i, first + i);
        n_rows += update->lens[s];
    }
}
