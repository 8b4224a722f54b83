/*
 * gpu_bits - what is promised to the bit, on a device: a row's numbers are the same in any company.
 *
 * A check is a line of the output: runs of the same rows, arranged in different ways, whose every element is held against one
 * expectation. Names have no quotation marks.
 *
 * Thread: one.
 */
#pragma once

#include "tests/gpu/gpu.h"

struct bits {
    struct gpu gpu;
    const char *plant; /* runs with these words in their names are changed by a bit; NULL: none */
    char **names;      /* of checks that are wanted; none: all */
    int n_names;
    uint32_t n_checks, n_failed;
};

struct bits_check {
    struct bits *bits;
    char name[64];
    uint32_t n_runs, n_failed;
    uint64_t n_compared; /* elements */
    bool has_reference;
    double of_allowed; /* with a reference: the worst error over its limit */
    char first[320];   /* difference; empty: none */
};

bool bits_is_wanted(const struct bits *bits, const char *name);
struct bits_check bits_begin(struct bits *bits, const char *name);
/* Counts a run that is not as expected; the first says why. */
void bits_differ(struct bits_check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A line of JSON. */
void bits_end(struct bits_check *check);
bool bits_is_planted(const struct bits *bits, const char *run);

/* From -1 to 1, of 24 bits; of a row of so many numbers. */
float bits_number(uint64_t row, uint32_t index);
/* An element in hexadecimal digits. */
struct bits_hex {
    char text[12];
};
struct bits_hex bits_hex(const void *element, size_t bytes);
/* Of the host; free frees it. */
void *bits_zeroed(size_t n, size_t bytes);
/* Memory of the device, sent from the host. */
struct device_memory bits_memory(struct bits *bits, const void *source, size_t bytes);

void bits_products(struct bits *bits);
void bits_attention(struct bits *bits);
