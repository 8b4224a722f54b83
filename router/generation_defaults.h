/*
 * generation_defaults - what generation_config.json says of the sampling that a request leaves open.
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
    float repetition_penalty; /* 1 */
};

/* A folder without the file is fine. CORRUPT, INVALID_ARGUMENT: error names file and key. */
MUST_CHECK enum status generation_defaults_read(const char *folder,
                                                struct generation_defaults *defaults_out,
                                                struct error *error);
