/*
 * generation_state - what the router knows of one request of a client. Its functions are in generation.h.
 *
 * Thread: dispatch's mutex, once it has started; before that whoever created it.
 */
#pragma once

#include "base/standing.h"
#include "process/ports/address.h"
#include "proto/kvferry/v1/generation.pb-c.h"
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

/* "": there are no tenants. */
static inline const char *generation_tenant(const struct generation *generation)
{
    return generation->pass ? tenant_pass_name(generation->pass) : "";
}
