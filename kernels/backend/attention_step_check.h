/*
 * attention_step_check - checks that a step fits its metadata and the cache. It changes nothing.
 */
#pragma once

#include "kernels/attention.h"

/* INVALID_ARGUMENT: the sentence names the sequence, the field and its value. */
MUST_CHECK enum status attention_step_check(const struct attention_metadata *metadata,
                                            const struct attention_step *step,
                                            const struct kv_view *kv, struct error *error);

/* The index, in its sequence, of the first query of the step. */
static inline uint32_t sequence_first_query(const struct attention_limits *limits,
                                            const struct attention_sequence *sequence)
{
    return limits->keys == KEYS_SELF ? sequence->kv_len - sequence->query_len
                                     : sequence->query_index;
}

static inline uint32_t sequence_n_beams(const struct attention_sequence *sequence)
{
    return sequence->n_beams > 1 ? sequence->n_beams : 1;
}
