/*
 * model_copy - the demo model in the test's own folder (command.h), where it may be spoilt.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* All its files, in in_folder("model"). */
void model_copy_make(void);
/* That file again, at most limit bytes of it. */
void model_copy_file(const char *name, size_t limit);
/* A file of that folder in the place of the copy's. */
void model_copy_take(const char *folder, const char *name);
/* One bit of the exponent of the element in the middle of that tensor. */
void model_copy_flip(const char *tensor);
/* Element n of that tensor. */
void model_copy_set(const char *tensor, uint32_t n, float value);
/* V of the first layer becomes infinite at that token and nowhere else; all weights are finite. */
void model_copy_overflow(uint32_t token);
/* Heads of 64 in place of 32, half as many, over the same tensors: what tensor cores take. Its text is nonsense. */
void model_copy_widen_heads(void);
