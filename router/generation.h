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
#include "base/standing.h"
#include "process/ports/address.h"
#include "proto/kvferry/internal/v1/generation_worker.pb-c.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "router/router_metrics.h"
#include "router/sampling_choice.h"
#include "router/tenants.h"
#include "rpc/server/call.h"
#include "tokenizer/token_decoder.h"
#include "trace/tracer.h"

#define REQUEST_ID_MAX     RPC_REQUEST_ID_MAX
#define CACHE_SALT_MAX     128u /* bytes */
#define PREFILL_REASON_MAX 320u /* bytes, NUL included */
#define REPLY_TOKENS_MAX   64u  /* in one message to the client */

/* The statistics of a worker's last message, or of an earlier one that had them. */
struct decode_end {
    bool is_there; /* the last message has arrived */
    bool has_timing;
    Kvferry__V1__FinishReason reason;
    uint32_t prompt_tokens, cached_tokens, generated_tokens;
    uint64_t queue_us, prefill_us, transfer_us, decode_us, first_token_us;
    uint64_t kv_bytes_received;
    uint32_t kv_tokens_received, kv_tokens_recomputed;
    char context_worker[ADDRESS_TEXT_MAX];
    char generation_worker[ADDRESS_TEXT_MAX];
    char transport[24];
    Kvferry__V1__PrefillPlace prefill_place;
    char prefill_reason[PREFILL_REASON_MAX];
};

void decode_end_take(const Kvferry__Internal__V1__DecodeResponse *message,
                     struct decode_end *end_out);

struct generation {
    struct generation *next, *previous; /* dispatch's list of live ones */
    struct generation *next_stopping, *next_failed;
    uint64_t failed_attempt;   /* an attempt whose call could not be started, */
    enum status failed_status; /* for this reason */
    struct rpc_call *call;
    bool is_unary;
    uint32_t holders;
    bool is_finished;
    bool is_stopping; /* a stop string was found: the worker's call must be cancelled */
    bool is_unheard;  /* a reply could not be sent: no more are sent */
    enum status left; /* how the call ended, if the client left first */

    char request_id[REQUEST_ID_MAX + 1];
    struct tracer *tracer;    /* may be NULL */
    struct trace_place place; /* its context is passed to workers */
    uint64_t dispatched_ns;   /* 0: not yet, as the next one */
    uint64_t placed_ns;       /* on the first pair that had room */
    bool is_named;            /* the client's message has the id, so it must be unique */
    struct tenant_pass *pass; /* of the call; NULL: no tenants */
    struct standing standing; /* passed to workers */
    char cache_salt[CACHE_SALT_MAX + 1];
    bool return_timing;
    bool return_progress; /* of a stream */
    bool add_special;     /* adds the special tokens of the tokenizer's template to text */
    char *text; /* [text_bytes] the prompt until it is tokenized; NULL: token ids were given */
    size_t text_bytes;
    uint32_t *token_ids;
    uint32_t n_tokens;
    struct sampling_choice sampling;
    uint64_t deadline_ns;
    uint64_t began_ns;
    uint64_t first_token_ns; /* 0: none yet */
    uint64_t last_token_ns;
    uint32_t last_token_id;
    uint32_t n_attempts;
    char generation_worker[ADDRESS_TEXT_MAX]; /* of the last attempt */
    char context_worker[ADDRESS_TEXT_MAX];
    bool was_handed_over; /* an earlier attempt named a context worker */

    struct token_decoder decoder;
    struct stop_strings stops;
    uint32_t n_generated;
    struct decode_end so_far; /* for a reply that ends before the worker's last message */

    /* Complete only. */
    uint32_t *ids; /* [sampling.params.max_tokens] */
    struct token_logprobs *logprobs;
    char *reply;
    size_t reply_bytes, reply_room, reply_bytes_max;
    bool is_too_long; /* over reply_bytes_max */
};

struct reply_scratch; /* for one message, under the mutex */

MUST_CHECK enum status reply_scratch_create(struct reply_scratch **scratch_out);
void reply_scratch_destroy(struct reply_scratch *scratch); /* NULL is fine */

/* Takes a holder of call; tracer may be NULL. NULL: no memory. */
struct generation *generation_create(struct rpc_call *call, bool is_unary, struct tracer *tracer,
                                     uint64_t now_ns);
void generation_destroy(struct generation *generation); /* NULL is fine */

/* Call it after the prompt is tokenized: allocates the memory for Complete's reply. NO_MEMORY. */
MUST_CHECK enum status generation_prepare(struct generation *generation,
                                          const struct tokenizer *tokenizer,
                                          size_t reply_bytes_max);

/* "": no tenants. */
const char *generation_tenant(const struct generation *generation);

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
