/*
 * described_lives - which address each life of a generation worker has described itself with, so that it
 * never gets another one: KV that a life asked for goes nowhere else.
 *
 * Nothing is forgotten while this process lives.
 *
 * Bound: DESCRIBED_LIVES_MAX lives, then QUEUE_FULL.
 * Thread: one (the queue thread).
 */
#pragma once

#include "kvtransfer/transport/transport.h"

#define DESCRIBED_LIVES_MAX 65536u

struct described_lives;

MUST_CHECK enum status described_lives_create(struct described_lives **lives_out);
void described_lives_destroy(struct described_lives *lives); /* NULL is fine */

/* The caller has proved that it is one of the cluster. NOT_ALLOWED: that life has described itself with
 * another address. QUEUE_FULL. */
MUST_CHECK enum status described_lives_note(struct described_lives *lives,
                                            const struct transport_address *address,
                                            struct error *error);
