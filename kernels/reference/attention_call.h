/*
 * attention_call - what the parts of the reference's attention share: one call of forward, its keys
 * (attention_keys.c) and its rows (attention_row.c).
 */
#pragma once

#include "kernels/backend/attention_layer.h"

struct attention_workspace {
    double *scores; /* [kv_len_max] of one row */
    /* K, then V of each new key as the cache holds it: [n_kv_tokens][n_kv_heads][2][head_dim]. A
     * cyclic cache is written after attention, because earlier queries of the step still need the
     * tokens whose slots the later ones take: new keys are read from here. */
    char *new_keys;
    /* K and V of one kv head as one sequence (of a beam) sees them, loaded when they are first
     * asked for: slots that nobody sees are never read. */
    double *k, *v;   /* [kv_len_max][head_dim] */
    bool *is_loaded; /* [kv_len_max] */
};

struct attention_call {
    const struct attention_layer *layer;
    const struct attention_metadata *metadata;
    const struct attention_io *io;
};

/* Bias, norm and RoPE of the step's K and V, rounded to the cache's dtype: into new_keys. */
void attention_keys_make(const struct attention_call *call);
/* new_keys into the cache. */
void attention_keys_update(const struct attention_call *call);

/* One query head. */
struct attention_row {
    const struct attention_call *call;
    const struct attention_sequence *sequence;
    uint32_t sequence_index, token, head, kv_head;
    uint32_t beam;
    uint32_t query;           /* of the step's query_len of the beam */
    uint32_t index;           /* of the query in its sequence */
    uint32_t key_index;       /* of the first cached key in its sequence */
    enum attention_math math; /* of its phase */
};

/* The next rows are of another sequence, beam or kv head. */
void attention_keys_forget(const struct attention_call *call);
/* K or V of the key with an index in the cache, as it enters the products: [head_dim]. */
const double *attention_keys_k(const struct attention_row *row, uint32_t index);
const double *attention_keys_v(const struct attention_row *row, uint32_t index);

/* Writes output and lse of one head of one token. */
void attention_row_run(const struct attention_row *row);
