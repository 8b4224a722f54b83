/*
 * generation - one Generate or Complete request in the router.
 *
 *     tokens of a worker -> token_decoder -> stop_strings -> GenerateResponse, or collected for
 *                                                            CompleteResponse
 *
 * Two holders once it has started: the core (until finish) and the call (until on_end).
 *
 * Bounds: one copy of the prompt; of Complete, max_tokens tokens and reply_bytes_max of text.
 *
 * Thread: dispatch's mutex, once it has started; before that its creator.
 */
#pragma once

#include "base/hash.h"
#include "proto/kvferry/internal/v1/generation_worker.pb-c.h"
#include "router/generation_state.h"
#include "router/router_metrics.h"

void decode_end_take(const Kvferry__Internal__V1__DecodeResponse *message,
                     struct decode_end *end_out);

struct reply_scratch; /* generation_reply.h */

/* Takes a holder of call; tracer may be NULL. NULL: no memory. */
struct generation *generation_create(struct rpc_call *call, bool is_unary, struct tracer *tracer,
                                     uint64_t now_ns);
void generation_destroy(struct generation *generation); /* NULL is fine */

/* Call it after the prompt is tokenized: allocates the memory for Complete's reply. NO_MEMORY. */
MUST_CHECK enum status generation_prepare(struct generation *generation,
                                          const struct tokenizer *tokenizer,
                                          size_t reply_bytes_max);

/* The id of this attempt for workers: the beginning of the request's id, the number of the attempt, and a hash of its
 * id in the core, which is never reused. So it differs from earlier attempts that a worker may still hold, from earlier
 * requests with the same id, and from other tenants' requests. */
void generation_attempt_id(const struct generation *generation, const struct hash_key *key,
                           uint64_t attempt, char id_out[REQUEST_ID_MAX + 1]);

/* Forwards or collects a worker's tokens. Sets is_stopping at a stop string. */
void generation_tokens(struct generation *generation,
                       const Kvferry__Internal__V1__DecodeResponse *message,
                       struct reply_scratch *scratch, const struct router_metrics *metrics,
                       uint64_t now_ns);

/* Ends the client's call, counts and logs it. end may be NULL. */
void generation_finish(struct generation *generation, enum status status, const char *sentence,
                       const struct decode_end *end, const struct router_metrics *metrics,
                       uint64_t now_ns);
