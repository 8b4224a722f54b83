/*
 * ranked_row - the likeliest tokens behind a sequence, with their log-probabilities after the rules of its request: by rank (ranks.h).
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdint.h>

#define RANKED_ROW_MAX 256u

struct ranked_row {
    uint32_t n;
    uint32_t ids[RANKED_ROW_MAX];
    float logprobs[RANKED_ROW_MAX]; /* finite */
};
