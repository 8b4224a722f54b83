/*
 * described_lives - the address with which each incarnation of a generation worker has described itself. An incarnation keeps
 * its address, so its KV goes nowhere else.
 *
 * No entry is removed while this process runs.
 *
 * Bound: DESCRIBED_LIVES_MAX incarnations, then QUEUE_FULL.
 * Thread: one (the queue thread).
 */
#pragma once

#include "kvtransfer/transport/transport.h"

#define DESCRIBED_LIVES_MAX 65536u

struct described_lives;

MUST_CHECK enum status described_lives_create(struct described_lives **lives_out);
void described_lives_destroy(struct described_lives *lives); /* NULL is fine */

/* The caller has authenticated as a process of the cluster. NOT_ALLOWED: the incarnation has described itself with another
 * address before. QUEUE_FULL. */
MUST_CHECK enum status described_lives_note(struct described_lives *lives,
                                            const struct transport_address *address,
                                            struct error *error);
