/*
 * token_rules - which tokens of a request may be drawn, and how much likelier: logit_bias, allowed_token_ids, bad_words, and the
 * constraint of the reply's text; and which texts end a beam.
 *
 * A sequence (of bad_words) forbids its last token wherever the tokens before it are the last generated ones.
 *
 * Bounds: as below; so a draw looks at no more than these.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"
#include "sampling_params/reply_constraint.h"
#include "sampling_params/stop_texts.h"

#include <stdbool.h>
#include <stdint.h>

#define LOGIT_BIASES_MAX      1024u
#define LOGIT_BIAS_LARGEST    100.0f
#define ALLOWED_TOKEN_IDS_MAX 4096u
#define BAD_WORDS_MAX         32u
#define BAD_WORD_BYTES_MAX    256u
#define BAD_SEQUENCES_MAX     (2 * BAD_WORDS_MAX) /* each word as it is, and behind a space */
#define BAD_SEQUENCE_IDS_MAX  512u
/* Of all lists together. */
#define TOKEN_RULES_ELEMENTS_MAX                                                                   \
    (2 * LOGIT_BIASES_MAX + ALLOWED_TOKEN_IDS_MAX +                                                \
     BAD_SEQUENCES_MAX * (1 + BAD_SEQUENCE_IDS_MAX) + REPLY_CHOICES_MAX + STOP_STRINGS_MAX)

struct sampling_fault;

/* The lists are borrowed, but for those of a copy. */
struct token_rules {
    uint32_t n_biases;
    const uint32_t *bias_ids; /* [n_biases], each once */
    const float *biases;      /* [n_biases] */
    uint32_t n_allowed;       /* 0: all are */
    const uint32_t *allowed_ids;
    uint32_t n_bad; /* sequences */
    const uint32_t *bad_lengths;
    uint32_t n_bad_ids;
    const uint32_t *bad_ids; /* [n_bad_ids], of one sequence after the other */
    struct reply_constraint constraint;
    struct stop_texts stops; /* of a beam search; else none */
};

/* There are none. */
bool token_rules_is_empty(const struct token_rules *rules);

/* Finds the first fault: too many, an id that is not below the vocabulary, a bias out of range (NaN is), a token with two biases,
 * lengths that do not fit the ids, a constraint that says nothing, a stop string of no size or too long. */
bool token_rules_find_fault(const struct token_rules *rules, uint32_t vocabulary,
                            struct sampling_fault *fault_out);

/* One allocation with its lists, which free() releases. rules has no fault. NULL: no memory. */
struct token_rules *token_rules_copy(const struct token_rules *rules);
