/*
 * attention_io_check - checks that a layer, a prepared step and the tensors of a call fit together.
 *
 * Thread: as attention.h.
 */
#pragma once

#include "kernels/backend/attention_layer.h"

/* INVALID_ARGUMENT: see attention_backend.forward. attention_io_check_kv is for kv_update, which only
 * reads k and v. */
MUST_CHECK enum status attention_io_check(const struct attention_layer *layer,
                                          const struct attention_metadata *metadata,
                                          const struct attention_io *io, struct error *error);
MUST_CHECK enum status attention_io_check_kv(const struct attention_layer *layer,
                                             const struct attention_metadata *metadata,
                                             const struct attention_io *io, struct error *error);

/* The index of the layer's rope in the tables of the metadata. ATTENTION_ROPES_MAX: the rope is missing there. */
uint32_t attention_rope_index(const struct attention_layer *layer,
                              const struct attention_metadata *metadata);
