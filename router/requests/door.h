/*
 * door - the client's side of a request, whatever protocol it came by (api/).
 *
 *     message of a protocol --door--> kvferry.v1.GenerateRequest + door_call --> intake
 *     pieces of the reply, its end or its failure --door_ops--> messages of that protocol
 *
 * A call has n choices (replies to one prompt). It ends once: by the end of its last choice, or by fail. After that nothing more
 * is said to it.
 *
 * Thread: each function says so.
 */
#pragma once

#include "base/log/request_origin.h"
#include "base/status.h"
#include "proto/kvferry/v1/generation.pb-c.h"
#include "router/admission/tenants.h"
#include "rpc/rpc_error.h"
#include "sampling_params/prompt_scores.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct door_call;

/* Tokens of a reply with their text. Everything is borrowed for the call of the function. */
struct reply_piece {
    uint32_t index;                        /* of the choice, below n */
    const uint32_t *token_ids;             /* [n] */
    const struct token_logprobs *logprobs; /* [n], or NULL: none were asked for */
    uint32_t n;
    const uint32_t *prompt_ids; /* [n_prompt] of the request */
    uint32_t n_prompt;
    const char *
        text; /* whole UTF-8 characters: none while one is incomplete, or may become a stop string */
    size_t text_bytes;
};

enum reply_matched { MATCHED_NOTHING, MATCHED_STRING, MATCHED_TOKEN };

/* What is known of a choice at its end. */
struct reply_end {
    uint32_t index;
    bool is_last; /* every other choice has ended: the call ends with this one */
    Kvferry__V1__FinishReason reason;
    enum reply_matched matched;
    ProtobufCBinaryData stop_string; /* borrowed */
    uint32_t stop_token_id;
    Kvferry__V1__Usage usage;
    Kvferry__V1__Timing timing;
    const char *request_id;
    bool has_timing;  /* it was asked for */
    const char *text; /* the rest, which no piece has had */
    size_t text_bytes;
    bool has_beam_score; /* of a beam search */
    float beam_score;    /* no NaN */
};

struct door_ops {
    /* Holders of the call. Any thread. */
    void (*share)(struct door_call *call);
    void (*release)(struct door_call *call);
    /* The client left, the deadline passed, or the server ended the call: nothing can reach the client any more. Any thread. */
    bool (*is_over)(struct door_call *call);
    /* How it ended then: TIMED_OUT, CANCELLED, SLOW_READER, DRAINING. */
    enum status (*end_status)(struct door_call *call);
    /* on_end is called exactly once, when the call is over for the client, whether or not anything was sent; before this
     * returns when it is over already. No lock is held. */
    void (*on_end)(struct door_call *call, void (*on_end)(void *arg, enum status why), void *arg);
    /* The name of the request: the client's, or a drawn one. Good until the last release. */
    const char *(*request_id)(struct door_call *call);
    void (*set_request_id)(struct door_call *call, const char *id);
    void (*origin)(struct door_call *call, struct request_origin *origin_out);
    void (*peer)(struct door_call *call, char *peer_out, size_t peer_bytes);

    /* The reply, one call at a time. Not OK: nothing more can be sent: CANCELLED and others, the call is over and on_end says so;
     * NO_MEMORY, REPLY_TOO_LONG: the router is to end the request with that. */
    enum status (*piece)(struct door_call *call, const struct reply_piece *piece);
    /* n_done of n tokens of the prompt have their KV. Only where return_progress was asked for. As piece. */
    enum status (*progress)(struct door_call *call, uint32_t n_done, uint32_t n);
    /* Log-probabilities of the prompt's tokens token_ids [scores->n]: in order, each once, before the first piece; at most as many as
     * a piece has. Only where sampling.prompt_logprobs was asked for. As piece. */
    enum status (*scores)(struct door_call *call, const uint32_t *token_ids,
                          const struct prompt_scores *scores);
    /* Of one choice. What it ended with: OK, or a failure that the client has been told. */
    enum status (*end)(struct door_call *call, struct reply_end *end);
    /* Any thread, and before anything was sent, too. error->status is not OK, its message not empty. */
    void (*fail)(struct door_call *call, const struct rpc_error *error);
};

/* The first member of a door's own object. */
struct door_call {
    const struct door_ops *ops;
    struct tenant_pass *pass; /* NULL: there are no tenants */
    uint64_t deadline_ns;
    bool is_whole; /* the reply leaves in one piece: it has no progress */
    bool
        ends_with_context; /* max_tokens is a bound, not a demand; absent: to the end of the context */
};

/* "": there are no tenants. */
static inline const char *door_call_tenant(const struct door_call *call)
{
    return call->pass ? tenant_pass_name(call->pass) : "";
}

/* How a call that is over ended. */
static inline enum status door_call_end_status(struct door_call *call)
{
    enum status status = call->ops->end_status(call);
    return status == STATUS_OK ? STATUS_CANCELLED : status;
}

/* For encode_input: whether the work on that call's text is in vain. call is a struct door_call. */
static inline bool door_call_is_over(void *call)
{
    struct door_call *self = (struct door_call *)call;
    return self->ops->is_over(self);
}
