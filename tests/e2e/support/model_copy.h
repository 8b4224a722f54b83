/*
 * model_copy - the demo model in the test's own folder (command.h), where it may be spoilt.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include <stddef.h>

/* All its files, in in_folder("model"). */
void model_copy_make(void);
/* That file again, at most limit bytes of it. */
void model_copy_file(const char *name, size_t limit);
/* One bit of the exponent of the element in the middle of that tensor. */
void model_copy_flip(const char *tensor);
/* Heads of 64 in place of 32, half as many, over the same tensors: what tensor cores take. Its text is nonsense. */
void model_copy_widen_heads(void);
