/*
 * reminder - when to log a lasting fault: after a second, because most faults at start are over by then,
 * and then at intervals that grow from 4 s to 17 min.
 *
 * Thread: one at a time (plain data, zeroed at first).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct reminder {
    uint64_t due_ns; /* 0: no fault */
    uint64_t interval_ns;
};

/* Whether to log it now; is_wrong false resets. */
bool reminder_is_due(struct reminder *reminder, bool is_wrong, uint64_t now_ns);
