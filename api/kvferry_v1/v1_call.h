/*
 * v1_call - one call of kvferry.v1 as the router knows it (router/requests/door.h): Generate's stream, Complete's one message.
 *
 * Messages to the client are built afresh: nothing that a worker sent is packed again.
 *
 * Thread: as door_ops.
 */
#pragma once

#include "api/reply/collected.h"
#include "api/reply/collected_scores.h"
#include "api/reply/rpc_door_call.h"
#include "router/intake.h"
#include "router/requests/generation_state.h"
#include "sampling_params/sampling_codec.h"

#define V1_LOGPROBS_ROOM 64u /* tokens encoded at one time for a stream */

/* For one message, while dispatch's mutex is held. */
struct v1_scratch {
    const struct intake
        *intake; /* its tokenizer knows the bytes of tokens: it is there before any token */
    struct token_logprobs_message messages[V1_LOGPROBS_ROOM];
    Kvferry__V1__TokenLogprobs *list[V1_LOGPROBS_ROOM];
};

/* A choice that is kept until all have ended. */
struct v1_choice {
    struct collected collected;
    struct reply_end end;
};

struct v1_call {
    struct rpc_door_call door;  /* first */
    struct v1_scratch *scratch; /* the service's; of a stream */
    size_t reply_bytes_max;     /* of one message */
    /* Of one message: */
    uint32_t n_choices;
    struct v1_choice *choices; /* [n_choices] */
    struct collected_scores scores;
};

/* One holder, the caller; takes one of rpc. is_whole: the reply is one message, with n_choices (Complete), or the caller's own
 * (0). NULL: no memory. */
struct v1_call *v1_call_create(struct rpc_call *rpc, bool is_whole, uint32_t n_choices,
                               struct v1_scratch *scratch, size_t reply_bytes_max);
