/*
 * gen_place - where a request's prompt was computed, and why, if it was computed here.
 *
 * Thread: any (plain data).
 */
#pragma once

enum gen_place {
    GEN_PLACE_UNKNOWN, /* it has not been, yet */
    GEN_PLACE_CONTEXT_WORKER,
    /* All others are here. */
    GEN_PLACE_SHORT_PROMPT,
    GEN_PLACE_PREFIX_CACHED,
    GEN_PLACE_NO_CONTEXT_WORKER,
    GEN_PLACE_PAIR_UNFIT,
    GEN_PLACE_HAND_OVERS_FULL,
    GEN_PLACE_HAND_OVER_FAILED,
    GEN_PLACE_CONTEXT_WORKERS_FULL,
    GEN_PLACES
};
