/*
 * halt - lets long work ask whether its result is still wanted.
 *
 * Long work checks between two steps; most checks only count, because ask may take a lock and read
 * a clock.
 *
 * Thread: the one of the call.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HALT_LOOKS 1024 /* to a question: some ten microseconds of splitting or merging */

struct halt {
    bool (*ask)(void *arg); /* true: not wanted any more; NULL: always wanted */
    void *arg;
    uint32_t n_looks;
};

/* CANCELLED: the result is not wanted any more. */
MUST_CHECK static inline enum status halt_ask(struct halt *halt)
{
    return halt->ask && halt->ask(halt->arg) ? STATUS_CANCELLED : STATUS_OK;
}

/* The same, at each HALT_LOOKS-th look. */
MUST_CHECK static inline enum status halt_look(struct halt *halt)
{
    return ++halt->n_looks % HALT_LOOKS == 0 ? halt_ask(halt) : STATUS_OK;
}
