/*
 * halt - whether what a call computes is still wanted.
 *
 * Long work takes a step at a time and looks between two of them; most looks only count, as ask may
 * take a lock and read a clock.
 *
 * Thread: one at a time each, the one of the call.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HALT_LOOKS 1024 /* to a question: some ten microseconds of splitting or merging */

struct halt {
    bool (*ask)(void *arg); /* true: it is not; NULL: it always is */
    void *arg;
    uint32_t n_looks;
};

/* CANCELLED: ask says that it is not wanted any more. */
MUST_CHECK static inline enum status halt_ask(struct halt *halt)
{
    return halt->ask && halt->ask(halt->arg) ? STATUS_CANCELLED : STATUS_OK;
}

/* The same, at each HALT_LOOKS-th look. */
MUST_CHECK static inline enum status halt_look(struct halt *halt)
{
    return ++halt->n_looks % HALT_LOOKS == 0 ? halt_ask(halt) : STATUS_OK;
}
