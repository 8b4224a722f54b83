/*
 * guarded - arrays that end at a page nobody may touch, and begin as NaN.
 */
#pragma once

#include <stddef.h>

struct guarded {
    void *data; /* all bits set: NaN in every float type */
    void *map;
    size_t map_bytes; /* the guard page among them */
};

#define GUARD_BYTES 4096u

struct guarded guarded_create(size_t bytes);
void guarded_destroy(struct guarded *guarded);
