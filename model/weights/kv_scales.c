#include "model/weights/kv_scales.h"

#include "base/hash.h"
#include "base/regular_file.h"
#include "kernels/quantize.h"
#include "model/config/kv_layers.h"
#include "model/weights/tensor_names.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_BYTES_MAX 256
#define FILE_BYTES_MAX (1u << 20)
#define SCALE_MIN      0x1p-120
#define SCALE_MAX      0x1p120
#define HEADER_UNIT    8 /* the header is a multiple of so many bytes */

enum { N_PARTS = 2 };

static double largest_of(enum dtype dtype)
{
    assert(dtype_is_8bit(dtype));
    return (double)(dtype == DTYPE_INT8 ? QUANTIZE_INT8_MAX : QUANTIZE_E4M3_MAX);
}

static enum status allocate(uint32_t n_layers, struct kv_scales *scales_out)
{
    double *largest = calloc(n_layers, N_PARTS * sizeof *largest);
    if (!largest)
        return STATUS_NO_MEMORY;
    *scales_out = (struct kv_scales){n_layers, largest};
    return STATUS_OK;
}

void kv_scales_finish(struct kv_scales *scales)
{
    free(scales->largest);
    *scales = (struct kv_scales){0};
}

enum status kv_scales_alike(uint32_t n_layers, double largest, struct kv_scales *scales_out)
{
    TRY(allocate(n_layers, scales_out));
    for (uint32_t i = 0; i < N_PARTS * n_layers; i++)
        scales_out->largest[i] = largest;
    return STATUS_OK;
}

enum status kv_scales_copy(const struct kv_scales *scales, struct kv_scales *scales_out)
{
    TRY(allocate(scales->n_layers, scales_out));
    memcpy(scales_out->largest, scales->largest,
           N_PARTS * scales->n_layers * sizeof *scales->largest);
    return STATUS_OK;
}

float kv_scales_of(const struct kv_scales *scales, enum dtype dtype, uint32_t layer,
                   enum kv_part part)
{
    assert(layer < scales->n_layers);
    return (float)(scales->largest[N_PARTS * layer + part] / largest_of(dtype));
}

uint64_t kv_scales_digest(const struct kv_scales *scales, enum dtype dtype)
{
    static const struct hash_key KEY = {{0}};
    const uint32_t type = dtype;
    struct hash128 digest = hash128_of(&KEY, &type, sizeof type);
    for (uint32_t layer = 0; layer < scales->n_layers; layer++) {
        const float both[N_PARTS] = {kv_scales_of(scales, dtype, layer, KV_PART_K),
                                     kv_scales_of(scales, dtype, layer, KV_PART_V)};
        digest = hash128_chain(&KEY, digest, both, sizeof both);
    }
    return digest.lo ? digest.lo : 1;
}

/* As a float32 a scale must be a number that a value can be divided by. */
static bool is_scale(double value)
{
    return value >= SCALE_MIN && value <= SCALE_MAX;
}

/* ---- the model's files ---- */

/* Sets *scale_out; leaves it if the files have no such tensor. */
static enum status read_scale(const struct weight_binding *binding, const char *name,
                              double *scale_out, struct error *error)
{
    const struct weight_entry *entry = weight_files_find(binding->files, name);
    if (!entry)
        return STATUS_OK;
    const struct safetensor *tensor = entry->tensor;
    enum dtype dtype = tensor->dtype == SAFETENSORS_F16    ? DTYPE_F16
                       : tensor->dtype == SAFETENSORS_BF16 ? DTYPE_BF16
                                                           : DTYPE_F32;
    if ((dtype == DTYPE_F32 && tensor->dtype != SAFETENSORS_F32) ||
        tensor->bytes != dtype_bytes(dtype))
        return error_set(
            error, STATUS_CORRUPT,
            "%s is %s in %llu bytes, expected one scale of F32, BF16 or F16: scales of "
            "heads or elements are not supported",
            name, safetensors_dtype_name(tensor->dtype), (unsigned long long)tensor->bytes);
    const double scale = (double)dtype_load(dtype, tensor->data, 0);
    if (!is_scale(scale))
        return error_set(error, STATUS_CORRUPT, "%s is %g, expected a number from %.3g to %.3g",
                         name, scale, SCALE_MIN, SCALE_MAX);
    *scale_out = scale;
    return STATUS_OK;
}

/* 0: the files have none of them. */
static enum status find_scale(const struct weight_binding *binding, uint32_t layer,
                              enum kv_part part, double *scale_out, struct error *error)
{
    const struct tensor_names *names = tensor_names_of(binding->config);
    *scale_out = 0;
    for (size_t i = 0; KV_SCALE_NAMES[part][i] && *scale_out == 0; i++) {
        char name[NAME_BYTES_MAX];
        snprintf(name, sizeof name, "%s%s%u.%s", binding->root, names->layers, layer,
                 KV_SCALE_NAMES[part][i]);
        TRY(read_scale(binding, name, scale_out, error));
    }
    return STATUS_OK;
}

static enum status bind_layers(const struct weight_binding *binding, struct kv_scales *scales,
                               bool *has_all_out, struct error *error)
{
    const double largest = largest_of(
        binding->config->quantization.kv_scheme == KV_SCHEME_INT8 ? DTYPE_INT8 : DTYPE_E4M3);
    const uint32_t n = N_PARTS * scales->n_layers;
    uint32_t n_found = 0, missing = n;
    for (uint32_t i = 0; i < n; i++) {
        double scale;
        TRY(find_scale(binding, kv_layers_at(binding->config, i / N_PARTS),
                       (enum kv_part)(i % N_PARTS), &scale, error));
        n_found += scale > 0;
        missing = scale > 0 || missing < n ? missing : i;
        scales->largest[i] = scale * largest;
    }
    *has_all_out = n_found == n;
    if (n_found == 0 || n_found == n)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "layer %u has no %s, but others have one",
                     kv_layers_at(binding->config, missing / N_PARTS),
                     KV_SCALE_NAMES[missing % N_PARTS][0]);
}

enum status kv_scales_bind(const struct weight_binding *binding, struct kv_scales *scales_out,
                           struct error *error)
{
    struct kv_scales scales;
    bool has_all = false;
    *scales_out = (struct kv_scales){0};
    if (binding->config->quantization.kv_scheme == KV_SCHEME_OTHER)
        return STATUS_OK;
    TRY(allocate(kv_layers_count(binding->config), &scales));
    enum status status = bind_layers(binding, &scales, &has_all, error);
    if (!has_all)
        kv_scales_finish(&scales);
    *scales_out = scales;
    return status;
}

/* ---- a file of calibrate ---- */

static const char *const NAMES[N_PARTS] = {"k_largest", "v_largest"};

static const struct safetensor *find(const struct safetensors *file, const char *name)
{
    for (uint32_t i = 0; i < file->n_tensors; i++)
        if (strcmp(file->tensors[i].name, name) == 0)
            return &file->tensors[i];
    return NULL;
}

static enum status take(const char *path, const struct safetensors *file,
                        struct kv_scales *scales_out, struct error *error)
{
    const uint32_t n = scales_out->n_layers;
    for (uint32_t part = 0; part < N_PARTS; part++) {
        const struct safetensor *tensor = find(file, NAMES[part]);
        if (!tensor || tensor->dtype != SAFETENSORS_F32)
            return error_set(error, STATUS_CORRUPT,
                             "%.200s: %s is %s, expected F32 with an element for each layer", path,
                             NAMES[part],
                             tensor ? safetensors_dtype_name(tensor->dtype) : "missing");
        if (tensor->n_dims != 1)
            return error_set(
                error, STATUS_CORRUPT,
                "%.200s: %s has %u dimensions, expected one, an element for each layer", path,
                NAMES[part], tensor->n_dims);
        if (tensor->shape[0] != n)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "%.200s: %s has %llu layers, the model has %u", path, NAMES[part],
                             (unsigned long long)tensor->shape[0], n);
        for (uint32_t layer = 0; layer < n; layer++) {
            const double largest = (double)dtype_load(DTYPE_F32, tensor->data, layer);
            if (!is_scale(largest))
                return error_set(
                    error, STATUS_CORRUPT,
                    "%.200s: %s of layer %u is %g, expected a number from %.3g to %.3g", path,
                    NAMES[part], layer, largest, SCALE_MIN, SCALE_MAX);
            scales_out->largest[N_PARTS * layer + part] = largest;
        }
    }
    return STATUS_OK;
}

enum status kv_scales_read(const char *path, uint32_t n_layers, struct kv_scales *scales_out,
                           struct error *error)
{
    struct safetensors file = {0};
    struct kv_scales scales = {0};
    char *bytes;
    size_t n_bytes;
    TRY(regular_file_read(path, FILE_BYTES_MAX, &bytes, &n_bytes, error));
    enum status status = safetensors_parse(bytes, n_bytes, path, &file, error);
    if (status == STATUS_OK)
        status = allocate(n_layers, &scales);
    if (status == STATUS_OK)
        status = take(path, &file, &scales, error);
    if (status != STATUS_OK)
        kv_scales_finish(&scales);
    safetensors_finish(&file);
    free(bytes);
    *scales_out = scales;
    return status;
}

static bool write_all(FILE *file, const struct kv_scales *scales)
{
    const unsigned long long bytes = scales->n_layers * sizeof(float);
    char header[512];
    int n = snprintf(header, sizeof header,
                     "{\"%s\":{\"dtype\":\"F32\",\"shape\":[%u],\"data_offsets\":[0,%llu]},"
                     "\"%s\":{\"dtype\":\"F32\",\"shape\":[%u],\"data_offsets\":[%llu,%llu]}}",
                     NAMES[KV_PART_K], scales->n_layers, bytes, NAMES[KV_PART_V], scales->n_layers,
                     bytes, 2 * bytes);
    assert(n > 0 && (size_t)n + HEADER_UNIT < sizeof header);
    while (n % HEADER_UNIT != 0)
        header[n++] = ' ';
    const uint64_t length = (uint64_t)n;
    bool is_written = fwrite(&length, sizeof length, 1, file) == 1 &&
                      fwrite(header, (size_t)n, 1, file) == 1;
    for (uint32_t part = 0; part < N_PARTS; part++)
        for (uint32_t layer = 0; layer < scales->n_layers; layer++) {
            const float largest = (float)scales->largest[N_PARTS * layer + part];
            is_written = is_written && fwrite(&largest, sizeof largest, 1, file) == 1;
        }
    return fflush(file) == 0 && is_written && fsync(fileno(file)) == 0;
}

enum status kv_scales_write(const char *path, const struct kv_scales *scales, struct error *error)
{
    char beside[4096];
    assert(scales->n_layers > 0);
    if ((size_t)snprintf(beside, sizeof beside, "%s.XXXXXX", path) >= sizeof beside)
        return error_set(error, STATUS_IO_FAILED, "%.200s: %s", path, strerror(ENAMETOOLONG));
    const int descriptor = mkstemp(beside);
    FILE *file = descriptor >= 0 ? fdopen(descriptor, "w") : NULL;
    bool is_written = file && fchmod(descriptor, 0644) == 0 && write_all(file, scales);
    int why = errno;
    if (file && fclose(file) != 0 && is_written) {
        why = errno;
        is_written = false;
    }
    if (is_written && rename(beside, path) == 0)
        return STATUS_OK;
    why = is_written ? errno : why;
    if (descriptor >= 0)
        unlink(beside);
    return error_set(error, STATUS_IO_FAILED, "%.200s: %s", path, strerror(why));
}
