/*
 * oracle - what a single process generates: one prompt, one pass, no cache, no batch.
 *
 * Prompts come from a small universe, so that their answers are computed once and kept: family f,
 * length n. All families begin with the same tokens, for as long as oracle_shared_tokens says, so
 * that prefixes are shared between them.
 */
#pragma once

#include "engine/encoder_line.h"
#include "engine/engine_request.h"
#include "model/forward/forward.h"
#include "model/sampling/sampler.h"
#include "model/weights/kv_scales.h"

#define ORACLE_MODELS 11u
#define ORACLE_FULL_GROUPS                                                                         \
    5u /* the model with more than one full group: seeds choose it, not their generators */
#define ORACLE_RECURRENT 6u  /* likewise: layers with recurrent state */
#define ORACLE_UNEQUAL   7u  /* the one whose layers have different heads, likewise */
#define ORACLE_T5        8u  /* with an encoder, likewise: distances in place of positions */
#define ORACLE_BART      9u  /* the same: learned positions, norms behind branches, forced tokens */
#define ORACLE_LATENT    10u /* a row of latents in place of K and V, likewise */
#define ORACLE_ADAPTERS  2u  /* LoRA adapters of the models that oracle_has_adapters */
#define ORACLE_FAMILIES  6u
/* With an encoder: texts of family 0, but their last token is the one that fills a line. */
#define ORACLE_FILLED         2u
#define ORACLE_VARIANTS       5u /* of sampling parameters */
#define ORACLE_DTYPES         5u /* of the KV cache */
#define ORACLE_PROMPT_MAX     112u
#define ORACLE_BART_MAX       80u /* of its texts: it has no more positions */
#define ORACLE_GENERATED_MAX  12u
#define ORACLE_LONG_MAX       48u /* of prompts that leave room for it */
#define ORACLE_CONTEXT_TOKENS 128u
/* One model more, which only the kind of run with sinks has: its prompts are longer, and its replies drop spans. */
#define ORACLE_SINKS_MODEL   ORACLE_MODELS
#define ORACLE_SINKS_CONTEXT 384u
#define ORACLE_SINKS_REPLY   160u
#define ORACLE_SINKS_WINDOW  48u
#define ORACLE_SINKS_NARROW  24u /* the window of a request with one of its own */
#define ORACLE_SINKS_SINKS   4u

struct oracle;

struct oracle_question {
    uint32_t model, family, n_prompt, variant;
    enum cache_dtype dtype;
    uint32_t reply_window; /* of the request: 0, or ORACLE_SINKS_NARROW */
    uint32_t adapter;      /* 0: none; 1 .. ORACLE_ADAPTERS */
};

struct oracle *oracle_create(void); /* aborts when the models cannot be read */
void oracle_destroy(struct oracle *oracle);

const struct kv_scales *oracle_kv_scales(const struct oracle *oracle, uint32_t model);
const struct model *oracle_model(const struct oracle *oracle, uint32_t model);
bool oracle_has_adapters(uint32_t model);
/* NULL: none, number 0. */
const struct request_adapter *oracle_adapter(const struct oracle *oracle, uint32_t model,
                                             uint32_t number);
uint32_t oracle_adapter_rank(uint32_t model); /* for a forward pass */
void oracle_prompt(const struct oracle *oracle, uint32_t model, uint32_t family, uint32_t n_tokens,
                   uint32_t *tokens_out);
/* Zeros, but of the model with sinks. */
struct sink_window oracle_sinks(uint32_t model);
bool oracle_has_encoder(uint32_t model);
/* Of a model with an encoder, for the longest texts and replies; of others text_max is 0. */
struct encoder_line oracle_line(uint32_t model, uint32_t block_tokens);
struct sampling_params oracle_sampling(uint32_t variant);
/* The last token of a reply that is as long as it may be; TOKEN_NONE: the one that is drawn. */
uint32_t oracle_forced_last(const struct oracle *oracle, uint32_t model);
/* n_tokens at least, up to ORACLE_LONG_MAX, with sinks ORACLE_SINKS_REPLY, as if none ended the generation. Borrowed until destroy. */
const uint32_t *oracle_answer(struct oracle *oracle, const struct oracle_question *question,
                              uint32_t n_tokens);
/* Whole sequences, for oracle_beams.h: begin computes the text of an encoder, and fills the tokens that a reply stands behind; it
 * returns how many. compute fills logits with the row behind the n_tokens, which begin with these. */
struct oracle_parts {
    block_id *blocks;
    uint32_t n_blocks;
    const float *logits;
    struct sampler *sampler;
};
uint32_t oracle_begin_whole(struct oracle *oracle, const struct oracle_question *question,
                            struct oracle_parts *parts_out, uint32_t *tokens_out);
void oracle_compute_whole(struct oracle *oracle, const struct oracle_question *question,
                          const struct oracle_parts *parts, const uint32_t *tokens,
                          uint32_t n_tokens);
void oracle_end_whole(struct oracle *oracle, const struct oracle_question *question,
                      struct oracle_parts *parts);
/* The log-probability of each token of the prompt, given those before it; of the first 0. [n_prompt], borrowed until destroy. */
const float *oracle_scores(struct oracle *oracle, const struct oracle_question *question);
