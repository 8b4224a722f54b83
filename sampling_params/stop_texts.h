/*
 * stop_texts - the stop strings of a beam search, as they go to a generation worker. Those of other replies stay in the router
 * (router/requests/stop_strings.h).
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdint.h>

#define STOP_STRINGS_MAX      16u
#define STOP_STRING_BYTES_MAX 256u

/* The texts are borrowed, but for those of a copy (token_rules_copy). */
struct stop_texts {
    uint32_t n;                          /* more than STOP_STRINGS_MAX is a fault */
    uint32_t bytes[STOP_STRINGS_MAX];    /* of each, 1 .. STOP_STRING_BYTES_MAX */
    const char *texts[STOP_STRINGS_MAX]; /* may hold U+0000, without an end */
};
