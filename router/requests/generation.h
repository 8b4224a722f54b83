/*
 * generation - one Generate or Complete request in the router.
 *
 *     tokens of a worker -> token_decoder -> stop_strings -> pieces for the door
 *
 * It has n choices: the core places each as a request of its own, the first one first, and the others beside it when it has the
 * prompt's KV. One that fails ends the others.
 *
 * Two holders once it has started: the core (until its last choice is finished) and the call (until on_end).
 *
 * Bounds: one copy of the prompt.
 *
 * Thread: dispatch's mutex, once it has started; before that its creator.
 */
#pragma once

#include "base/hash.h"
#include "proto/kvferry/internal/v1/generation_worker.pb-c.h"
#include "router/requests/generation_state.h"
#include "router/requests/router_metrics.h"

void decode_end_take(const Kvferry__Internal__V1__DecodeResponse *message,
                     struct decode_end *end_out);

/* For one message, under the mutex. */
struct reply_scratch {
    char text[(REPLY_TOKENS_MAX + 1) * TOKEN_TEXT_BYTES_MAX + STOP_STRING_BYTES_MAX];
    struct token_logprobs logprobs[REPLY_TOKENS_MAX];
};

/* Takes a holder of call; tracer may be NULL. NULL: no memory. */
struct generation *generation_create(struct door_call *call, struct tracer *tracer,
                                     uint64_t now_ns);
void generation_destroy(struct generation *generation); /* NULL is fine */

/* The prompt is tokenized: makes the choices, whose replies can be decoded. NO_MEMORY. */
MUST_CHECK enum status generation_prepare(struct generation *generation,
                                          const struct tokenizer *tokenizer);

/* What workers know this attempt by: the beginning of the request's id with the attempt's number and a hash of its id in
 * the core, which is never used again. A worker may still hold an earlier attempt of it, or one of an earlier request of
 * that name that has ended, and tenants may use the same ids. */
void choice_attempt_id(const struct choice *choice, const struct hash_key *key, uint64_t attempt,
                       char id_out[REQUEST_ID_MAX + 1]);

/* A worker's tokens become pieces of the reply. Sets is_stopping at a stop string, left where the reply cannot be kept. */
void choice_tokens(struct choice *choice, const Kvferry__Internal__V1__DecodeResponse *message,
                   struct reply_scratch *scratch, const struct router_metrics *metrics,
                   uint64_t now_ns);

/* Tells the door the end of this choice, or, once, that the request has failed. last may be NULL. */
void choice_finish(struct choice *choice, enum status status, const char *sentence,
                   const struct decode_end *last);
/* MODEL_NOT_FOUND of a request that was judged before its adapter was unloaded: names the field and the adapter. sentence: what more is
 * to be said; "": nothing. */
void generation_lacks_adapter(const struct generation *generation, const char *sentence,
                              struct rpc_error *error_out);
/* It is not to be started any more. */
void choice_abandon(struct choice *choice);
/* Whether what is left of it is to be ended: the client went, or a choice has failed. */
bool generation_is_over(const struct generation *generation);
uint32_t generation_n_generated(const struct generation *generation); /* by all choices */
/* All choices are finished: settles, counts and logs the request. */
void generation_close(struct generation *generation, const struct router_metrics *metrics,
                      uint64_t now_ns);
