/*
 * oracle - what a single process generates: one prompt, one pass, no cache, no batch.
 *
 * Prompts come from a small universe, so that their answers are computed once and kept: family f,
 * length n. All families begin with the same tokens, for as long as oracle_shared_tokens says, so
 * that prefixes are shared between them.
 */
#pragma once

#include "model/forward/forward.h"
#include "model/sampling/sampler.h"
#include "model/weights/kv_scales.h"

#define ORACLE_MODELS 8u
#define ORACLE_FULL_GROUPS                                                                         \
    5u /* the model with more than one full group: seeds choose it, not their generators */
#define ORACLE_RECURRENT      6u /* likewise: layers with recurrent state */
#define ORACLE_UNEQUAL        7u /* the one whose layers have different heads, likewise */
#define ORACLE_FAMILIES       6u
#define ORACLE_VARIANTS       5u /* of sampling parameters */
#define ORACLE_DTYPES         5u /* of the KV cache */
#define ORACLE_PROMPT_MAX     112u
#define ORACLE_GENERATED_MAX  12u
#define ORACLE_LONG_MAX       48u /* of prompts that leave room for it */
#define ORACLE_CONTEXT_TOKENS 128u

struct oracle;

struct oracle_question {
    uint32_t model, family, n_prompt, variant;
    enum cache_dtype dtype;
};

struct oracle *oracle_create(void); /* aborts when the models cannot be read */
void oracle_destroy(struct oracle *oracle);

const struct kv_scales *oracle_kv_scales(const struct oracle *oracle, uint32_t model);
const struct model *oracle_model(const struct oracle *oracle, uint32_t model);
void oracle_prompt(const struct oracle *oracle, uint32_t model, uint32_t family, uint32_t n_tokens,
                   uint32_t *tokens_out);
struct sampling_params oracle_sampling(uint32_t variant);
/* n_tokens at least, up to ORACLE_LONG_MAX, as if none ended the generation. Borrowed until destroy. */
const uint32_t *oracle_answer(struct oracle *oracle, const struct oracle_question *question,
                              uint32_t n_tokens);
/* The log-probability of each token of the prompt, given those before it; of the first 0. [n_prompt], borrowed until destroy. */
const float *oracle_scores(struct oracle *oracle, const struct oracle_question *question);
