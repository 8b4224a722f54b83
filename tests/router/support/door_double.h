/*
 * door_double - a client's side without a protocol: it keeps what it is told, and ends when the test says so.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include "router/requests/door.h"

enum { DOUBLE_IDS_MAX = 512, DOUBLE_TEXT_MAX = 4096 };

struct door_double {
    struct door_call base; /* first */
    uint32_t n_holders;
    enum status ended; /* not OK: the call is over */
    char request_id[RPC_REQUEST_ID_MAX + 1];
    size_t text_bytes_max; /* beyond it a piece is REPLY_TOO_LONG */
    enum status refuses;   /* not OK: what piece answers */
    uint32_t ids[DOUBLE_IDS_MAX];
    uint32_t n_ids, n_progress, n_ends;
    uint32_t n_scores; /* tokens of the prompt */
    uint32_t scored_ids[DOUBLE_IDS_MAX];
    float scores[DOUBLE_IDS_MAX];
    char text[DOUBLE_TEXT_MAX]; /* with a NUL */
    size_t text_bytes;
    struct rpc_error failure; /* status OK: it did not fail */
};

/* One holder: the test. */
void door_double_init(struct door_double *call, const char *request_id);
