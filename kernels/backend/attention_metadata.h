/*
 * attention_metadata - a step laid out in plain memory: which token is where, and its angles.
 *
 * Thread: as attention.h.
 */
#pragma once

#include "kernels/attention.h"

/* Runs on the caller; what needs a workspace hangs it on metadata->workspace. */
MUST_CHECK enum status attention_metadata_create(const struct attention_limits *limits,
                                                 struct thread_pool *pool,
                                                 struct attention_metadata **metadata_out,
                                                 struct error *error);
void attention_metadata_destroy(struct attention_metadata *metadata);
MUST_CHECK enum status attention_metadata_prepare(struct attention_metadata *metadata,
                                                  const struct attention_step *step,
                                                  const struct kv_view *kv, struct error *error);
MUST_CHECK enum status attention_metadata_make_static(struct attention_metadata *metadata,
                                                      uint32_t n_generations, struct error *error);

/* The sentence of NO_MEMORY, which it returns. */
enum status attention_metadata_no_memory(const struct attention_limits *limits,
                                         struct error *error);
