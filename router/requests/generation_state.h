/*
 * generation_state - what the router knows of one request of a client. Its functions are in generation.h.
 *
 * Thread: dispatch's mutex, once it has started; before that whoever created it.
 */
#pragma once

#include "base/adapter_id.h"
#include "base/standing.h"
#include "process/ports/address.h"
#include "router/requests/door.h"
#include "router/requests/sampling_choice.h"
#include "tokenizer/token_decoder.h"
#include "trace/tracer.h"

#define REQUEST_ID_MAX     RPC_REQUEST_ID_MAX
#define CACHE_SALT_MAX     128u /* bytes */
#define PREFILL_REASON_MAX 320u /* bytes, NUL included */
#define CHOICES_MAX        16u
#define REPLY_TOKENS_MAX   64u /* in one piece */

/* Figures of a worker's message. */
struct decode_end {
    bool is_there;    /* the last message has arrived */
    bool is_complete; /* STOP because of the constraint: the last token is no stop token */
    bool has_timing;
    Kvferry__V1__FinishReason reason;
    uint32_t prompt_tokens, cached_tokens, generated_tokens, draft_tokens, accepted_tokens;
    uint64_t queue_us, prefill_us, transfer_us, decode_us, first_token_us;
    uint64_t kv_bytes_received;
    uint32_t kv_tokens_received, kv_tokens_recomputed;
    char context_worker[ADDRESS_TEXT_MAX];
    char generation_worker[ADDRESS_TEXT_MAX];
    char transport[24];
    Kvferry__V1__PrefillPlace prefill_place;
    char prefill_reason[PREFILL_REASON_MAX];
};

/* One reply to the prompt: what the core and a worker know as a request. */
struct choice {
    struct generation *generation;
    uint32_t index;
    struct choice *next_failed;
    uint64_t failed_attempt;   /* its call could not be started, */
    enum status failed_status; /* for this reason */
    bool is_started;           /* the core was given it */
    bool is_finished;
    bool is_stopping; /* a stop string was found: the worker's call is to be cancelled */

    uint64_t
        placed_ns; /* on the first pair that did not refuse it for want of room; 0: not yet, as what follows */
    uint64_t first_token_ns;
    uint64_t last_token_ns;
    uint32_t last_token_id;
    uint32_t n_attempts;
    char generation_worker[ADDRESS_TEXT_MAX]; /* of the last attempt */
    char context_worker[ADDRESS_TEXT_MAX];
    bool was_handed_over; /* by an earlier attempt: it named a context worker */
    bool is_beside;       /* placed where the first choice has the prompt */

    bool has_progress;    /* of the prompt, from its worker: */
    uint32_t n_done;      /* tokens with KV */
    uint64_t kv_there_ns; /* its worker told figures of the prompt; 0: not yet */
    bool is_kv_counted;   /* among the flows */

    struct token_decoder decoder;
    struct stop_strings stops;
    uint32_t n_generated;
    float beam_score; /* of a beam search, with the reason: once its reply has come */
    Kvferry__V1__FinishReason beam_reason;
    bool has_beam_stop; /* this stop string ended it, wherever it is in the text */
    uint32_t beam_stop;
    struct decode_end
        end; /* the worker's last figures: of its last message, or of an earlier one */
};

struct generation {
    struct generation *next, *previous; /* dispatch's list of live ones */
    struct generation *next_swept;
    bool is_swept;  /* it is in that list */
    bool is_closed; /* told, counted, and no longer in the list of live ones */
    struct door_call *call;
    uint32_t holders;
    bool is_unheard; /* a reply could not be sent: no more are */
    enum status
        left; /* how the call ended when the client went first, or why its reply could not be kept */
    enum status status; /* of the first choice that failed; OK: none has */

    char request_id[REQUEST_ID_MAX + 1];
    uint64_t number;           /* in dispatch, from 1; 0: not there */
    struct tracer *tracer;     /* may be NULL */
    struct trace_place place;  /* its context is what workers are told */
    uint64_t dispatched_ns;    /* 0: not yet */
    bool is_named;             /* by the client's message: it must be the only one of that name */
    struct standing standing;  /* told to workers */
    struct adapter_id adapter; /* none: the model alone */
    char cache_salt[CACHE_SALT_MAX + 1];
    char route_salt[ADAPTER_DIGEST_BYTES + CACHE_SALT_MAX + 1]; /* as workers tell prefixes apart */
    bool return_timing;
    bool return_progress;
    bool skip_special; /* tokens, in the text */
    bool add_special;  /* to text: what the tokenizer's template adds */
    char *text; /* [text_bytes] the prompt until it is tokenized; NULL: token ids were given */
    size_t text_bytes;
    bool
        is_chat; /* the text is a chat request as JSON, of which the model's template makes the prompt */
    uint32_t mark; /* in the text (encode_input); 0: none */
    uint32_t *token_ids;
    uint32_t n_tokens;
    uint32_t n_scored; /* of them, whose scores the door has (choice_scores.h) */
    struct sampling_choice sampling;
    struct token_rules *rules;   /* sampling's; NULL: none */
    struct bad_words *bad_words; /* which are to be among them; NULL: none, or they are */
    struct stop_strings stops;   /* as asked for: each choice has a copy */
    uint64_t deadline_ns;
    uint64_t began_ns;
    uint32_t n_choices; /* 1 .. CHOICES_MAX */
    uint32_t n_live;    /* of them, not finished */
    struct choice *choices;
};

static inline bool generation_is_search(const struct generation *generation)
{
    return beam_params_search(&generation->sampling.params.beams);
}

/* Its first choices, each of which is a call of a worker. A beam search is one call, whose choice has the others with it. */
static inline uint32_t generation_n_calls(const struct generation *generation)
{
    return generation_is_search(generation) ? 1 : generation->n_choices;
}

/* "": there are no tenants. */
static inline const char *generation_tenant(const struct generation *generation)
{
    return door_call_tenant(generation->call);
}
