/*
 * revival - when a process that has ended is started again.
 *
 * After a pause: REVIVAL_FIRST_MS, then each time twice as long, up to REVIVAL_MAX_MS, so that what cannot live does not
 * keep a machine busy with its deaths. Who has served for REVIVAL_GOOD_MS begins anew.
 *
 * Thread: any (plain data); all zero is one that has never ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define REVIVAL_FIRST_MS 500
#define REVIVAL_MAX_MS   30000
#define REVIVAL_GOOD_MS  60000

struct revival {
    uint64_t pause_ms;  /* the last one; 0: there was none, or it is forgotten */
    uint64_t due_ns;    /* 0: it waits for nothing */
    uint64_t served_ns; /* since when it serves, in this life; 0: not yet */
};

/* It serves since then; later calls of the same life change nothing. */
void revival_serves(struct revival *revival, uint64_t now_ns);
/* Its life is over: the pause that begins, in ms. */
uint64_t revival_ended(struct revival *revival, uint64_t now_ns);
/* The pause is over; then it is not waiting any more. */
bool revival_is_due(struct revival *revival, uint64_t now_ns);
bool revival_waits(const struct revival *revival);
