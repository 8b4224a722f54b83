/*
 * attention_call - the state of one call of forward, which the parts of the reference's attention share: its keys
 * (attention_keys.c) and its rows (attention_row.c).
 */
#pragma once

#include "kernels/backend/attention_layer.h"

struct attention_workspace {
    double *scores; /* [kv_len_max] of one row */
    /* K, then V of each new key in the dtype of the cache: [n_kv_tokens][n_kv_heads][2][head_dim]. New keys
     * are read from here: a cyclic cache is written after attention, because earlier queries of the step still
     * need the tokens whose slots the new keys overwrite. */
    char *new_keys;
    /* K and V of one kv head for one sequence (or beam). They are loaded when they are first used: slots that
     * no row sees are never read. */
    double *k, *v;   /* [kv_len_max][head_dim] */
    bool *is_loaded; /* [kv_len_max] */
};

struct attention_call {
    const struct attention_layer *layer;
    const struct attention_metadata *metadata;
    const struct attention_io *io;
};

/* Applies bias, norm and RoPE to K and V of the step, rounds them to the dtype of the cache, and writes new_keys. */
void attention_keys_make(const struct attention_call *call);
/* Copies new_keys into the cache. */
void attention_keys_update(const struct attention_call *call);

/* One query head. */
struct attention_row {
    const struct attention_call *call;
    const struct attention_sequence *sequence;
    uint32_t sequence_index, token, head, kv_head;
    uint32_t beam;
    uint32_t query;           /* number of the query in the step, of its beam */
    uint32_t index;           /* index of the query in its sequence */
    uint32_t key_index;       /* index of the first cached key in its sequence */
    enum attention_math math; /* that of the phase */
};

/* Drops the loaded keys: the next rows belong to another sequence, beam or kv head. */
void attention_keys_forget(const struct attention_call *call);
/* K or V of the key with this index in the cache, as the products use it: [head_dim]. */
const double *attention_keys_k(const struct attention_row *row, uint32_t index);
const double *attention_keys_v(const struct attention_row *row, uint32_t index);

/* Writes output and lse of one head of one token. */
void attention_row_run(const struct attention_row *row);
