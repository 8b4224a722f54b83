/*
 * openai_call_parts - what an openai_call is made of.
 *
 * Lock: the call's mutex, where it says so.
 */
#pragma once

#include "api/openai/openai_reply.h"
#include "api/openai/openai_request.h"
#include "rpc/request_id.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

struct openai_place;

struct openai_prompt {
    struct door_call base; /* first */
    struct openai_call *call;
    bool owns_pass; /* else it is the exchange's */
    char request_id[RPC_REQUEST_ID_MAX + 1];
    void (*on_end)(void *arg, enum status why); /* NULL: none, or called */
    void *arg;
    struct collected_scores scores;
};

struct openai_choice {
    struct collected collected; /* of a whole reply */
    Kvferry__V1__FinishReason reason;
    bool has_beam_score; /* of a beam search */
    float beam_score;
    bool has_begun; /* of a stream */
    uint64_t text_offset;
    struct tool_text tools; /* of a stream */
};

struct openai_call {
    const struct openai_place *place;
    struct http_exchange *exchange;
    atomic_uint n_holders;
    struct openai_request request;
    struct reply_kind kind;
    char id[RPC_REQUEST_ID_MAX + 16];
    char request_id[RPC_REQUEST_ID_MAX + 1];
    struct openai_prompt *prompts; /* [request.n_prompts] */
    struct openai_choice *choices; /* [request.n_prompts * request.n_choices] */
    atomic_bool has_failed;        /* the client has been told, or is about to be */
    pthread_mutex_t mutex;         /* what follows; behind dispatch's */
    bool is_over;
    enum status over; /* how the exchange ended */
    bool has_begun;
    uint32_t n_live; /* prompts whose reply has not ended */
    size_t text_bytes;
    struct reply_usage usage;
};

/* Choice index of the prompt. */
static inline struct openai_choice *openai_choice_of(const struct openai_prompt *prompt,
                                                     uint32_t index)
{
    struct openai_call *call = prompt->call;
    uint32_t first = (uint32_t)(prompt - call->prompts) * call->request.n_choices;
    assert(index < call->request.n_choices);
    return &call->choices[first + index];
}
