/*
 * revival - when an ended process is started again.
 *
 * It is restarted after a pause: first REVIVAL_FIRST_MS, then each time twice as long, up to REVIVAL_MAX_MS, so that a
 * process that always fails does not keep the machine busy. After a process has served for REVIVAL_GOOD_MS, the next
 * pause is the first one again.
 *
 * Thread: any (plain data); all zeros: it has never ended.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define REVIVAL_FIRST_MS 500
#define REVIVAL_MAX_MS   30000
#define REVIVAL_GOOD_MS  60000

struct revival {
    uint64_t pause_ms;  /* the last pause; 0: none, or reset */
    uint64_t due_ns;    /* when the pause ends; 0: no pause */
    uint64_t served_ns; /* since when the process serves; 0: not yet */
};

/* The process serves since then; later calls for the same process change nothing. */
void revival_serves(struct revival *revival, uint64_t now_ns);
/* The process has ended; returns the pause in ms. */
uint64_t revival_ended(struct revival *revival, uint64_t now_ns);
/* Whether the pause is over; if so, it is reset. */
bool revival_is_due(struct revival *revival, uint64_t now_ns);
bool revival_waits(const struct revival *revival);
