#include "worker_common/worker_kv_scales.h"

#include "base/log/log.h"

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

static enum status copy(const struct kv_scales *from, struct kv_scales *scales_out)
{
    TRY(kv_scales_alike(from->n_layers, 1, scales_out));
    for (uint32_t i = 0; i < 2 * from->n_layers; i++)
        scales_out->largest[i] = from->largest[i];
    return STATUS_OK;
}

static enum status read_file(const char *path, uint32_t n_layers, struct kv_scales *scales_out,
                             struct error *error)
{
    TRY(kv_scales_read(path, n_layers, scales_out, error));
    log_event(LOG_INFO, NULL, "scales of K and V", LOG_TEXT("file", path));
    return STATUS_OK;
}

static enum status choose(const struct model *model, const char *folder, enum kv_dtype dtype,
                          const char *kv_scales, struct kv_scales *scales_out, struct error *error)
{
    const uint32_t n_layers = model_get_config(model)->n_layers;
    const struct kv_scales *own = model_kv_scales(model);
    char path[PATH_BYTES_MAX];
    if (kv_scales && kv_scales[0])
        return read_file(kv_scales, n_layers, scales_out, error);
    if (worker_kv_scales_path(folder, path, sizeof path) && access(path, F_OK) == 0)
        return read_file(path, n_layers, scales_out, error);
    if (own->n_layers > 0) {
        log_info("scales of K and V: those of the checkpoint");
        return copy(own, scales_out);
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
    return kv_scales_alike(n_layers, 448, scales_out);
}

enum status worker_kv_scales_find(const struct model *model, const char *folder,
                                  enum kv_dtype dtype, const char *kv_scales,
                                  struct kv_scales *scales_out, struct error *error)
{
    *scales_out = (struct kv_scales){0};
    if (kv_dtype_is_8bit(dtype))
        return choose(model, folder, dtype, kv_scales, scales_out, error);
    if (kv_scales && kv_scales[0])
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_scales is %.200s with kv_dtype %s: expected int8 or e4m3", kv_scales,
                         kv_dtype_name(dtype));
    return STATUS_OK;
}
