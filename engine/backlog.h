/*
 * backlog - the prompt tokens that a context worker has to compute, and what one of them takes it: as it has measured, and tells
 * who waits for a prompt.
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdint.h>

struct backlog {
    uint64_t token_ns; /* 0: it does not say */
    uint64_t n_tokens; /* of all prompts, the reader's included */
};

/* When all of it is computed, from now on; UINT64_MAX at most. */
uint64_t backlog_ns(const struct backlog *backlog);
