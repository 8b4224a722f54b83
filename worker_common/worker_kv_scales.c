#include "worker_common/worker_kv_scales.h"

#include "base/log/log.h"
#include "kernels/quantize.h"
#include "model/config/kv_layers.h"
#include "worker_common/worker_forward.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES_MAX 4096

bool worker_kv_scales_path(const char *folder, char *path_out, size_t path_max)
{
    struct stat about;
    const bool is_file = stat(folder, &about) == 0 && S_ISREG(about.st_mode); /* GGUF */
    const char *between = is_file ? "." : "/";
    const int n = snprintf(path_out, path_max, "%s%s%s", folder, between, KV_SCALES_FILE);
    return n > 0 && (size_t)n < path_max;
}

enum kv_scales_place worker_kv_scales_place(const struct model *model, const char *folder)
{
    char path[PATH_BYTES_MAX];
    if (worker_kv_scales_path(folder, path, sizeof path) && access(path, F_OK) == 0)
        return KV_SCALES_BESIDE;
    return model_kv_scales(model)->n_layers > 0 ? KV_SCALES_OF_CHECKPOINT : KV_SCALES_NOWHERE;
}

static enum status read_file(const char *path, uint32_t n_layers, struct kv_scales *scales_out,
                             struct error *error)
{
    TRY(kv_scales_read(path, n_layers, scales_out, error));
    log_event(LOG_INFO, NULL, "scales of K and V", LOG_TEXT("file", path));
    return STATUS_OK;
}

/* The sentence has the row, too. */
static enum status read_named(const char *path, uint32_t n_layers, struct kv_scales *scales_out,
                              struct error *error)
{
    struct error why = {""};
    const enum status status = read_file(path, n_layers, scales_out, &why);
    if (status == STATUS_OK)
        return STATUS_OK;
    return error_set(error, status, "kv_scales: %s", why.text[0] ? why.text : status_text(status));
}

static enum status choose(const struct model *model, const char *folder, enum kv_dtype dtype,
                          const char *kv_scales, struct kv_scales *scales_out, struct error *error)
{
    const uint32_t n_layers = kv_layers_count(model_get_config(model));
    char path[PATH_BYTES_MAX];
    if (kv_scales && kv_scales[0])
        return read_named(kv_scales, n_layers, scales_out, error);
    const enum kv_scales_place place = worker_kv_scales_place(model, folder);
    if (place == KV_SCALES_BESIDE && worker_kv_scales_path(folder, path, sizeof path))
        return read_file(path, n_layers, scales_out, error);
    if (place == KV_SCALES_OF_CHECKPOINT) {
        log_info("scales of K and V: those of the checkpoint");
        return kv_scales_copy(model_kv_scales(model), scales_out);
    }
    if (model_kv_scales_error(model)[0])
        return error_set(error, STATUS_CORRUPT, "%s", model_kv_scales_error(model));
    if (dtype == KV_INT8)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_dtype is int8, but %.200s has no scales of K and V: make them with "
                         "`kvferry calibrate MODEL --text FILE`",
                         folder);
    log_warn("kv_dtype is e4m3 without scales of K and V: 1 for all layers; "
             "`kvferry calibrate MODEL --text FILE` makes better ones");
    return kv_scales_alike(n_layers, (double)QUANTIZE_E4M3_MAX, scales_out);
}

enum status worker_kv_scales_find(const struct model *model, const char *folder,
                                  enum worker_kv_dtype wanted, const char *kv_scales,
                                  struct kv_scales *scales_out, struct error *error)
{
    const enum kv_dtype dtype = worker_kv_dtype(wanted, model_weight_dtype(model));
    *scales_out = (struct kv_scales){0};
    if (kv_dtype_is_8bit(dtype))
        return choose(model, folder, dtype, kv_scales, scales_out, error);
    if (kv_scales && kv_scales[0])
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_scales is %.200s with kv_dtype %s: expected int8 or e4m3", kv_scales,
                         kv_dtype_name(dtype));
    return STATUS_OK;
}
