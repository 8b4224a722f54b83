/*
 * timeline - where the stages of one request are on one axis: microseconds from its arrival.
 *
 *     |-- route --|-- queue --|------ prefill ------|F---------- decode ----------|
 *                                     |-- transfer ----|S
 *
 * The lengths are those that the workers measured. Their places are derived, because the clocks of processes differ:
 * prefill ends with the first token (F), the queue ends where prefill begins, route is what is left before them
 * (tokenizing, choosing workers, the ways between processes, earlier attempts); decode begins at F. The transfer ends when
 * the KV was there (S), as the first message after the first token says, and is never drawn before the prefill.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdint.h>

struct timeline_part {
    uint64_t from_us, us;
};

struct timeline_times {
    uint64_t first_token_us; /* after the arrival; 0: there was none */
    uint64_t kv_there_us;    /* the same of the message after it; 0: not known */
    uint64_t total_us;
    uint64_t queue_us, prefill_us, transfer_us, decode_us; /* lengths */
};

struct timeline {
    struct timeline_part route, queue, prefill, transfer, decode; /* us 0: there is none */
    uint64_t total_us;
};

/* Lengths that do not fit before the first token, or in the whole, are cut. */
void timeline_make(const struct timeline_times *times, struct timeline *timeline_out);
