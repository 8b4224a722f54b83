/*
 * generation_reply - builds messages for the client from scratch: a worker's message is never
 * forwarded.
 *
 * Thread: dispatch's mutex.
 */
#pragma once

#include "router/generation_state.h"
#include "sampling_params/sampling_codec.h"

/* For one message, under the mutex. */
struct reply_scratch {
    char text[(REPLY_TOKENS_MAX + 1) * TOKEN_TEXT_BYTES_MAX + STOP_STRING_BYTES_MAX];
    struct token_logprobs_message logprobs[REPLY_TOKENS_MAX];
    Kvferry__V1__TokenLogprobs *list[REPLY_TOKENS_MAX];
    struct token_logprobs plain[REPLY_TOKENS_MAX];
};

MUST_CHECK enum status reply_scratch_create(struct reply_scratch **scratch_out);
void reply_scratch_destroy(struct reply_scratch *scratch); /* NULL is fine */

/* With the first text_bytes of scratch's text. logprobs may be NULL. Fails as rpc_call_send does. */
MUST_CHECK enum status reply_send_tokens(struct generation *generation, const uint32_t *token_ids,
                                         const struct token_logprobs *logprobs, uint32_t n,
                                         size_t text_bytes, struct reply_scratch *scratch);

/* Sends the progress of the prompt. Fails as rpc_call_send does. */
MUST_CHECK enum status reply_send_progress(struct generation *generation, uint32_t n_done);

enum reply_matched { MATCHED_NOTHING, MATCHED_STRING, MATCHED_TOKEN };

/* The content of both kinds of last message. */
struct reply_end {
    Kvferry__V1__FinishReason reason;
    enum reply_matched matched;
    ProtobufCBinaryData stop_string; /* in the generation */
    uint32_t stop_token_id;
    Kvferry__V1__Usage usage;
    Kvferry__V1__Timing timing;
    bool has_timing;
};
void reply_end_make(const struct generation *generation, const struct decode_end *end,
                    struct reply_end *end_out);

/* The last message of a stream, with the text that was still held back. */
void reply_send_last(struct generation *generation, struct reply_end *end, const char *text,
                     size_t text_bytes);
/* The one message of Complete. */
void reply_complete(struct generation *generation, struct reply_end *end);
