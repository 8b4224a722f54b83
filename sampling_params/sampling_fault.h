/*
 * sampling_fault - what is wrong with the sampling of a request: FIELD, spelled as in the public API, is VALUE, but must be WANTED.
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sampling_fault {
    char field[40];
    char value[32];
    char wanted[48];
};

/* Copies the texts, cut to their room. Returns true, for who returns whether there is a fault. */
bool sampling_fault_set(struct sampling_fault *fault_out, const char *field, const char *value,
                        const char *wanted);
/* The same with a number. */
bool sampling_fault_set_count(struct sampling_fault *fault_out, const char *field, uint32_t count,
                              const char *wanted);
