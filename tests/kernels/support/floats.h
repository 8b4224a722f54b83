/*
 * floats - a golden that is float32 arrays one behind the other, read from front to back.
 */
#pragma once

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

struct floats {
    float *all;
    size_t n, used;
};

/* name: below tests/golden, without its ending. */
static inline struct floats floats_open(const char *name)
{
    enum { FLOATS_MAX = 1 << 18 };
    struct floats floats = {.all = malloc(FLOATS_MAX * sizeof(float))};
    char path[300];
    snprintf(path, sizeof path, "%s/tests/golden/%s.bin", KVFERRY_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    cr_assert(file && floats.all, "%s is missing", path);
    floats.n = fread(floats.all, sizeof(float), FLOATS_MAX, file);
    fclose(file);
    return floats;
}

static inline const float *floats_take(struct floats *floats, size_t n)
{
    cr_assert(floats->used + n <= floats->n, "the golden ends too early");
    floats->used += n;
    return floats->all + floats->used - n;
}

static inline void floats_close(struct floats *floats)
{
    cr_assert_eq(floats->used, floats->n, "the golden has more than was read");
    free(floats->all);
}
