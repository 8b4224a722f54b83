/*
 * rope_parameters - reads the parameters of the rotary embedding (RoPE) from config.json.
 *
 *     Transformers 4    rope_theta, rope_scaling {type or rope_type, ...} or null
 *     Transformers 5    rope_parameters {rope_type, rope_theta, ...}
 *
 *     written for both  both, which must not differ; rope_scaling is read, as in Transformers
 *
 * Types: default, linear, dynamic, llama3, yarn, longrope (of Phi-3 also by its first name, su). Others are refused by name. With
 * longrope the positions that are served choose the factors, not each prompt's length. With dynamic, frequencies
 * depend on the length only beyond original_positions, and no more positions than these are served. An unknown
 * member of the object is refused: it may change the result.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/rope.h"
#include "model/config/families.h"
#include "model/config/model_config.h"
#include "model/files/json_fields.h"

#define CONTEXT_TOKENS_MAX (1u << 24) /* positions that a model serves */

/* What the rotation is read from. */
struct rope_source {
    const struct json_fields *fields; /* of config.json */
    const struct family *family;
    uint32_t head_dim;
    uint32_t context_tokens;      /* max_position_embeddings */
    bool is_local;                /* of layers with ROPE_LOCAL */
    struct rope_factors *factors; /* filled, if it is longrope */
};

/* rope_out->positions_max is the number of positions that are served: context_tokens, except with YaRN if
 * max_position_embeddings is still the original number: then factor times it.
 * CORRUPT (malformed, out of range), UNSUPPORTED (not computed here): the sentence names the key. */
MUST_CHECK enum status rope_parameters_read(const struct rope_source *source,
                                            struct rope_config *rope_out);
