/*
 * layer_device - a small attention layer (tests/kernels/support/layer.h) on a device of the harness. Memory that nobody
 * wrote is NaN.
 *
 * Thread: one, a device at a time.
 */
#pragma once

#include "tests/kernels/support/layer.h"
#include "tests/simt/simt_device.h"

/* Bound to the thread, its kernels loaded, until close. Layers are closed before. */
struct device *layer_device_open(uint32_t n_processors, uint32_t seed);
void layer_device_close(void);
/* Memory of the test that is the device's, too, until close. */
void layer_device_adopt(const void *base, size_t bytes);

/* The arena, the cache and the tensors of its steps are the device's. */
struct layer layer_device_layer(const struct attention_backend *backend,
                                const struct attention_config *config, bool is_contiguous);
void layer_device_finish(struct layer *layer);
