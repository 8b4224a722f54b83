/*
 * engine_call - one call of a gateway, as the router knows it (router/requests/door.h).
 *
 *     stream        each piece is a message, and the end of each choice
 *     not a stream  a choice is kept until it and those before it have ended, and then is one message: gateways number
 *                   choices in the order of their coming
 *     scores        of the prompt are kept until the first message, which has them
 *     abort         the end of each choice that is not complete, at once; scores only if they are whole
 *
 * Bounds: what is kept has reply_bytes_max bytes of text, and as many as a message, the prompt's scores included.
 *
 * Lock: its own, for what follows door; see README.md.
 * Thread: as door_ops; engine_call_abort any.
 */
#pragma once

#include "api/engine/engine_ask.h"
#include "api/engine/engine_fields.h"
#include "api/engine/engine_place.h"
#include "api/reply/collected.h"
#include "api/reply/collected_scores.h"
#include "api/reply/rpc_door_call.h"
#include "router/requests/generation_state.h"

#include <pthread.h>

struct engine_choice {
    uint32_t n_tokens; /* generated so far */
    bool is_done;
    struct collected collected; /* not of a stream; as what follows */
    bool has_ended;
    struct reply_end end; /* without its text, if it has ended */
    uint8_t *stop_string; /* that of end, or NULL */
};

/* The end of a choice. */
struct engine_end {
    uint32_t index;
    const struct reply_end *reply;     /* NULL: it was aborted */
    const struct collected *collected; /* of a stream nothing */
    uint32_t n_tokens;
};

struct engine_call {
    struct rpc_door_call door; /* first */
    const struct engine_place *place;
    const struct engine_form *form;
    struct engine_wants wants;
    char client_id[ENGINE_ID_MAX + 1];
    struct engine_calls *calls; /* of which it is one; under their lock, as what follows */
    void (*leave)(struct engine_call *call);
    struct engine_call *next, *previous;
    bool is_abort_asked;

    pthread_mutex_t lock;
    bool is_aborted;
    bool has_begun;       /* a message was made: what is only in the first is not made again */
    uint32_t n_prompt;    /* tokens; 0: not known yet */
    uint32_t *prompt_ids; /* [n_prompt], of a call that keeps its reply and wants them; else NULL */
    struct collected_scores scores; /* of the prompt, until the first message */
    size_t kept_bytes;              /* of all choices, as messages */
    uint32_t n_choices;
    struct engine_choice *choices; /* [n_choices] */
};

/* How a protocol says it. One at a time; a message leaves by engine_call_send. */
struct engine_form {
    const struct engine_field *fields;
    enum status (*piece)(struct engine_call *call, const struct reply_piece *piece);
    enum status (*end)(struct engine_call *call, const struct engine_end *end);
};

/* One holder, the caller. What ask borrows may go afterwards; place outlives it. NULL: no memory. */
struct engine_call *engine_call_create(const struct engine_place *place, struct rpc_call *rpc,
                                       const struct engine_ask *ask,
                                       const struct engine_form *form);
/* For forms: a message of the stream, or the one message of a unary call. As rpc_call_send. */
MUST_CHECK enum status engine_call_send(struct engine_call *call, const ProtobufCMessage *message);
/* Ends it now, with an end of each choice that has none. */
void engine_call_abort(struct engine_call *call);
