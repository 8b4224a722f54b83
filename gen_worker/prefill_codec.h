/*
 * prefill_codec - encodes the request of a Prefill and decodes its events (gen_prefill.h).
 *
 * A prefill_message has its own copy of the request, because it may wait for a description.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "engine/prefill_event.h"
#include "gen_worker/gen_prefill.h"
#include "proto/kvferry/internal/v1/context_worker.pb-c.h"

struct prefill_message;

MUST_CHECK enum status prefill_message_create(const struct gen_prefill_request *request,
                                              struct prefill_message **message_out);
void prefill_message_destroy(struct prefill_message *message); /* NULL is fine */

/* Borrowed from message, until the next encode or destroy. block_tokens: of the callee, which sends whole blocks of its own. */
const ProtobufCMessage *prefill_message_encode(struct prefill_message *message,
                                               uint64_t caller_incarnation,
                                               uint64_t callee_incarnation, uint32_t block_tokens);
uint64_t prefill_message_deadline_ns(const struct prefill_message *message);

/* Memory for the scores of one event. */
struct prefill_scratch {
    struct token_logprobs scores[PROMPT_SCORES_MAX];
    struct ranked_row ranked;
};

/* Those of one message, in their order. */
struct prefill_events {
    struct prefill_event list[3];
    uint32_t n;
};

/* events_out borrows from message and scratch. CORRUPT: no event, arrays that do not match, an end without a seal. */
MUST_CHECK enum status prefill_events_decode(const Kvferry__Internal__V1__PrefillResponse *message,
                                             struct prefill_scratch *scratch,
                                             struct prefill_events *events_out);
