/*
 * generation_defaults - what a model's folder says of the sampling that a request leaves open.
 *
 * generation_config.json says it; in folders from before there was such a file, config.json does.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct generation_defaults {
    float temperature;        /* 1; 0 when the file says do_sample: false */
    uint32_t top_k;           /* 0: all */
    float top_p;              /* 1 */
    float min_p;              /* 0 */
    float repetition_penalty; /* 1 */
};

/* A folder without either is fine. CORRUPT, INVALID_ARGUMENT: error names file and key. */
MUST_CHECK enum status generation_defaults_read(const char *folder,
                                                struct generation_defaults *defaults_out,
                                                struct error *error);
