/*
 * reply - what a Generate call has answered so far: the text and the tokens of each choice, and log-probabilities of the prompt.
 *
 * Bounds: REPLY_CHOICES_MAX choices; bytes_max of memory for all of them.
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"
#include "proto/kvferry/v1/generation.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLY_CHOICES_MAX 16u

struct reply_top {
    uint32_t id;
    float logprob;
};

struct reply_token {
    uint32_t id;
    bool has_logprob;
    float logprob;
    uint32_t first_top, n_top; /* of the choice's tops, best first */
};

struct reply_choice {
    char *text; /* [n_text], may hold NUL */
    struct reply_token *tokens;
    struct reply_top *tops;
    size_t n_text, n_tokens, n_tops;
    size_t text_room, tokens_room, tops_room;
    bool has_ended; /* then the members below are set */
    Kvferry__V1__FinishReason reason;
    uint32_t prompt_tokens, cached_tokens, generated_tokens;
    bool has_stop_id;
    uint32_t stop_id;
    char *stop_text; /* [n_stop_text]; NULL: no stop string ended it */
    size_t n_stop_text;
    bool has_score; /* of a beam search */
    float score;
};

struct reply {
    struct reply_choice choices[REPLY_CHOICES_MAX];
    struct reply_choice prompt; /* its tokens and tops alone; none: they were not asked for */
    uint32_t n_choices;
    uint64_t bytes, bytes_max;
    char request_id[136];
};

/* n_choices: 1 .. REPLY_CHOICES_MAX. */
void reply_init(struct reply *reply, uint32_t n_choices, uint64_t bytes_max);
/* NULL members are fine. */
void reply_finish(struct reply *reply);

/* Adds a message of the stream. CORRUPT: it is of a choice that was not asked for. REPLY_TOO_LONG: bytes_max is
 * reached. NO_MEMORY. */
MUST_CHECK enum status reply_take(struct reply *reply, const Kvferry__V1__GenerateResponse *message,
                                  struct error *error);

const char *finish_reason_name(Kvferry__V1__FinishReason reason); /* "stop", "length" */
