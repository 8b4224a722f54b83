/*
 * load_progress - shows the progress of loading a model: a bar on a terminal, else a log line for
 * each 10 %.
 *
 * Nothing is shown in the first LOAD_PROGRESS_QUIET_MS, because small models load faster than that.
 *
 * Thread: one.
 */
#pragma once

#include "base/metrics/metrics.h"

#include <stdbool.h>
#include <stdint.h>

#define LOAD_PROGRESS_QUIET_MS 300

struct load_progress {
    struct gauge *ratio; /* kvferry_model_load_progress_ratio; may be NULL */
    uint64_t started_ns;
    uint32_t tenths_shown;
    bool is_terminal; /* standard error is a terminal */
    bool is_bar_open;
};

void load_progress_init(struct load_progress *progress, struct gauge *ratio, uint64_t now_ns);
void load_progress_show(struct load_progress *progress, uint64_t done, uint64_t all,
                        uint64_t now_ns);
/* Ends the bar's line. */
void load_progress_finish(struct load_progress *progress);
