/*
 * stall - for how long a number that moves with somebody's progress has stood still.
 *
 * Time is counted between looks, STALL_GAP_NS at most for each: when this process was stopped, or its
 * own thread did not run, nobody else's standing still is proven by that.
 *
 * Thread: the one that looks.
 */
#pragma once

#include "base/clock.h"

#define STALL_GAP_NS (2 * NS_PER_S)

/* Zeroed: never looked. */
struct stall {
    uint64_t mark;
    uint64_t looked_ns;
    uint64_t still_ns;
};

/* For how long mark has been what it is now; 0 at the first look. */
uint64_t stall_look(struct stall *stall, uint64_t mark, uint64_t now_ns);
