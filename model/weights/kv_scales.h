/*
 * kv_scales - the largest magnitudes that K and V of each layer are made for, of which a cache of 8-bit elements makes its scales:
 *
 * With latents (kernels/latent.h) a row has the scale of K, and that of V is the same.
 *
 *     scale = largest / 127 (INT8), largest / 448 (E4M3)        stored = x / scale, rounded; what is larger becomes the largest
 *
 * Layers are those that have K and V (model/config/kv_layers.h), in their order.
 *
 * A checkpoint may have them: k_scale and v_scale of each layer's attention, as compressed-tensors and ModelOpt write them
 * (tensor_names.h), or one kv_scale for both. `kvferry calibrate` writes a safetensors file of its own:
 *
 *     k_largest, v_largest    F32 [n_layers]
 *
 * Thread: any; plain data.
 */
#pragma once

#include "kernels/dtype.h"
#include "model/weights/weight_binding.h"

#include <stdint.h>

#define KV_SCALES_FILE "kv_scales.safetensors" /* beside the model */

struct kv_scales {
    uint32_t n_layers; /* 0: nothing is known */
    double *largest;   /* [n_layers][2]: K, V; finite and positive */
};

enum kv_part { KV_PART_K, KV_PART_V };

/* What the files of a bound model have; n_layers 0: nothing. CORRUPT: a tensor of another type or shape, a value that is no scale, or
 * some layers only; the sentence names the tensor. NO_MEMORY. */
MUST_CHECK enum status kv_scales_bind(const struct weight_binding *binding,
                                      struct kv_scales *scales_out, struct error *error);
/* Reads a file of calibrate. NOT_FOUND, IO_FAILED; CORRUPT, INVALID_ARGUMENT (another number of layers) with the tensor and what was
 * expected; NO_MEMORY. */
MUST_CHECK enum status kv_scales_read(const char *path, uint32_t n_layers,
                                      struct kv_scales *scales_out, struct error *error);
/* Replaces the file as a whole, or leaves it as it was. IO_FAILED, NO_MEMORY. */
MUST_CHECK enum status kv_scales_write(const char *path, const struct kv_scales *scales,
                                       struct error *error);
/* All layers alike; for E4M3 a scale of 1 has largest 448. NO_MEMORY. */
MUST_CHECK enum status kv_scales_alike(uint32_t n_layers, double largest,
                                       struct kv_scales *scales_out);
/* scales: of one layer or more. NO_MEMORY. */
MUST_CHECK enum status kv_scales_copy(const struct kv_scales *scales, struct kv_scales *scales_out);
void kv_scales_finish(struct kv_scales *scales); /* a zeroed one is fine */

/* dtype: INT8 or E4M3. */
float kv_scales_of(const struct kv_scales *scales, enum dtype dtype, uint32_t layer,
                   enum kv_part part);
/* Of all scales for that type; never 0. */
uint64_t kv_scales_digest(const struct kv_scales *scales, enum dtype dtype);
