/*
 * door_double - a client's side without a protocol: it keeps what it is told, and ends when the test says so.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include "router/requests/door.h"
#include "router/requests/generation_state.h"

#include <stdatomic.h>

enum { DOUBLE_IDS_MAX = 512, DOUBLE_TEXT_MAX = 4096 };

/* What one choice was told. */
struct double_choice {
    uint32_t n_ids;
    char text[256]; /* with a NUL */
    size_t text_bytes;
    bool has_ended;
    struct reply_end end; /* what it borrows has gone */
};

struct door_double {
    struct door_call base; /* first */
    atomic_uint n_holders;
    enum status ended; /* not OK: the call is over */
    char request_id[RPC_REQUEST_ID_MAX + 1];
    size_t text_bytes_max; /* beyond it a piece is REPLY_TOO_LONG */
    bool is_counting;      /* tokens and texts are not kept beside those of choices */
    enum status refuses;   /* not OK: what piece answers */
    uint32_t ids[DOUBLE_IDS_MAX];
    uint32_t n_ids, n_progress;
    uint32_t n_ends; /* of the call: by its last choice, or by a failure */
    struct double_choice choices[CHOICES_MAX];
    void (*on_end)(void *arg, enum status why); /* NULL: not set, or called */
    void *on_end_arg;
    uint32_t n_scores; /* tokens of the prompt */
    uint32_t scored_ids[DOUBLE_IDS_MAX];
    float scores[DOUBLE_IDS_MAX];
    char text[DOUBLE_TEXT_MAX]; /* with a NUL */
    size_t text_bytes;
    struct rpc_error failure; /* status OK: it did not fail */
};

/* The call is over for the client. */
void door_double_leave(struct door_double *call, enum status why);
/* One holder: the test. */
void door_double_init(struct door_double *call, const char *request_id);
