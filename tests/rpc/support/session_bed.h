/*
 * session_bed - one session of the relay; the test is its client and its core.
 *
 * Asserts (Criterion) on anything unexpected; close, that what was counted is given back.
 */
#pragma once

#include "rpc/relay/session.h"

#include <stddef.h>
#include <stdint.h>

#define SESSION_BED_BYTES (1u << 20)

struct session_bed {
    struct relay_limits limits;
    struct session_common common;
    struct network_list exempt;
    struct address_book *book;
    struct address_entry *address;
    struct session session;
    uint64_t now_ns;
    struct session_event event; /* the last one that was not SESSION_NOTHING */
    uint32_t n_events[SESSION_CLOSE + 1];
    uint8_t bytes[SESSION_BED_BYTES]; /* what was put, and was not said yet */
    size_t n;
};
extern struct session_bed session_bed;

/* Default limits, but for what relay_turns_test.c looks at. */
void session_bed_open(void);
void session_bed_close(void);

/* Before all else. */
void session_bed_put_preface(void);
/* Returns its payload, bytes of 1. */
uint8_t *session_bed_put(uint32_t length, enum frame_type type, uint8_t flags, uint32_t stream);

/* What was put, from the client, in pieces of n_at_once. Stops at SESSION_CLOSE and SESSION_PAUSE; returns what was not walked. */
size_t session_bed_from_client(size_t n_at_once);
