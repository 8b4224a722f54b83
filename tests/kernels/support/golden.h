/*
 * golden - a file of tests/golden/attention: arrays by name, of float or uint32_t.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GOLDEN_ARRAYS_MAX = 16, GOLDEN_NAME_MAX = 32 };

struct golden_array {
    char name[GOLDEN_NAME_MAX];
    char kind[4]; /* f32, u32 */
    unsigned n;   /* elements */
    void *data;
};

struct golden_file {
    const char *name;
    struct golden_array arrays[GOLDEN_ARRAYS_MAX];
    uint32_t n_arrays;
};

struct golden_file golden_open(const char *name);
void golden_close(struct golden_file *file);

bool golden_has(const struct golden_file *file, const char *array);
/* The array must be there, be of that type and have n elements. */
const float *golden_floats(const struct golden_file *file, const char *array, size_t n);
const uint32_t *golden_numbers(const struct golden_file *file, const char *array, size_t n);
size_t golden_count(const struct golden_file *file, const char *array); /* 0: not there */
