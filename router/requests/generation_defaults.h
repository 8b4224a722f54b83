/*
 * generation_defaults - the model folder's defaults for sampling parameters that a request leaves
 * open.
 *
 * They are in generation_config.json; in older folders without that file, in config.json.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

struct generation_defaults {
    float
        temperature; /* 1; 0 when the file says do_sample: false, or num_beams and not do_sample: true */
    uint32_t top_k;                /* 0: all */
    float top_p;                   /* 1 */
    float min_p;                   /* 0 */
    float typical_p;               /* 1 */
    float epsilon_cutoff;          /* 0 */
    float eta_cutoff;              /* 0 */
    float repetition_penalty;      /* 1 */
    uint32_t no_repeat_ngram_size; /* 0 */
};

/* With the values above. */
extern const struct generation_defaults GENERATION_DEFAULTS;

/* A folder without both files is fine. CORRUPT, INVALID_ARGUMENT: error names file and key. */
MUST_CHECK enum status generation_defaults_read(const char *folder,
                                                struct generation_defaults *defaults_out,
                                                struct error *error);
