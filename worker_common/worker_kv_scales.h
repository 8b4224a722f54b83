/*
 * worker_kv_scales - which scales a worker's cache of 8-bit elements has:
 *
 *     kv_scales names a file        that file, written by `kvferry calibrate`
 *     kv_scales.safetensors         beside the model: in its folder, or FILE.kv_scales.safetensors beside a GGUF file
 *     the checkpoint                k_scale and v_scale of its layers
 *     none of them                  E4M3: 1 for all, with a warning; INT8 is refused, since 127 would be the largest value
 *
 * Thread: main.
 */
#pragma once

#include "model/model.h"
#include "model/weights/kv_scales.h"
#include "worker_common/worker_config.h"

/* kv_scales: the configuration row; "" or NULL: not set. Sets no layers if the dtype is not of 8 bits. INVALID_ARGUMENT: kv_scales is set
 * with another dtype, or there are none for INT8. CORRUPT: those of the checkpoint cannot be used. Else as kv_scales_read. The caller
 * finishes scales_out. */
MUST_CHECK enum status worker_kv_scales_find(const struct model *model, const char *folder,
                                             enum worker_kv_dtype wanted, const char *kv_scales,
                                             struct kv_scales *scales_out, struct error *error);
enum kv_scales_place { KV_SCALES_NOWHERE, KV_SCALES_BESIDE, KV_SCALES_OF_CHECKPOINT };

/* Where find takes them from if the row is not set. */
enum kv_scales_place worker_kv_scales_place(const struct model *model, const char *folder);
/* Where `kvferry calibrate` writes, and find looks: the path beside the model. False: it is longer than path_max. */
bool worker_kv_scales_path(const char *folder, char *path_out, size_t path_max);
