/*
 * stall - for how long a progress counter has not changed.
 *
 * The time between two looks is counted, STALL_GAP_NS at most for each: if this process was stopped,
 * or its thread did not run, that does not prove that the observed thread makes no progress.
 *
 * Thread: the one that looks.
 */
#pragma once

#include "base/clock.h"

#define STALL_GAP_NS (2 * NS_PER_S)

/* All zero: no look yet. */
struct stall {
    uint64_t mark;
    uint64_t looked_ns;
    uint64_t still_ns;
};

/* For how long mark has had its present value; 0 at the first look. */
uint64_t stall_look(struct stall *stall, uint64_t mark, uint64_t now_ns);
