/*
 * rope_parameters - the rotary embedding that config.json asks for.
 *
 *     Transformers 4    rope_theta, rope_scaling {type or rope_type, ...} or null
 *     Transformers 5    rope_parameters {rope_type, rope_theta, ...}
 *
 *     written for both  both, which must not differ; rope_scaling is read, as in Transformers
 *
 * Types: default, linear, dynamic, llama3, yarn; others are refused by name: longrope too, whose
 * frequencies depend on the length of the prompt, which its first chunk does not know. Dynamic ones
 * do only beyond original_positions: they are the positions served. A member of the object that is
 * not known here is refused: each of them changes the result.
 *
 * Thread: any.
 */
#pragma once

#include "kernels/rope.h"
#include "model/json_fields.h"

#define CONTEXT_TOKENS_MAX (1u << 24) /* positions that a model serves */

/* context_tokens: max_position_embeddings. rope_out->positions_max are the positions that are served: those,
 * but with YaRN, whose factor goes on from the original ones, factor times these where max_position_embeddings
 * was left at them. CORRUPT (malformed, out of
 * range), UNSUPPORTED (not computed here): the sentence names the key. */
MUST_CHECK enum status rope_parameters_read(const struct json_fields *fields, uint32_t head_dim,
                                            uint32_t context_tokens, struct rope_config *rope_out);
