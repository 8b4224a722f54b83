/*
 * engine_sizes - the sizes of an engine, and a check that they agree.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/geometry.h"

struct engine_sizes {
    const struct geometry *geometry;
    uint32_t chunk_tokens;    /* whole blocks */
    uint32_t batch_tokens;    /* a chunk at least */
    uint32_t running_max;     /* requests with blocks */
    const char *running_name; /* the name of that option */
    uint32_t queue_max;
    uint32_t streams_max; /* queue_max + running_max at least */
};

/* INVALID_ARGUMENT: error names the option, its value and what is wanted. */
MUST_CHECK enum status engine_sizes_check(const struct engine_sizes *sizes, struct error *error);
