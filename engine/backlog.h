/*
 * backlog - how many prompt tokens a context worker has to compute, and how long a token takes by its measurement. It reports
 * this to readers that wait for a prompt.
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdint.h>

struct backlog {
    uint64_t token_ns; /* 0: unknown */
    uint64_t n_tokens; /* of all prompts, the reader's included */
};

/* The time until all of it is computed; UINT64_MAX at most. */
uint64_t backlog_ns(const struct backlog *backlog);
