#include "model/adapter/adapter_file.h"

#include "base/regular_file.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_name(const void *left, const void *right)
{
    const struct safetensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static enum status read_file(const char *folder, uint64_t bytes_max, struct error *error,
                             struct mapped_file *file_out)
{
    enum status status;
    int descriptor;
    size_t bytes;
    TRY(regular_file_open_in(folder, ADAPTER_FILE, UINT64_MAX, &descriptor, &bytes, error));
    if (bytes > bytes_max)
        status = error_set(error, STATUS_INVALID_ARGUMENT,
                           ADAPTER_FILE " has %zu bytes, and there is room for %" PRIu64
                                        " (adapter_memory)",
                           bytes, bytes_max);
    else
        status = mapped_file_read(descriptor, bytes, ADAPTER_FILE, file_out, error);
    close(descriptor);
    return status;
}

static enum status list(struct adapter_file *file, const char *folder, uint64_t bytes_max,
                        struct error *error)
{
    struct error cause = {""};
    const enum status status = read_file(folder, bytes_max, &cause, &file->file);
    if (status == STATUS_NOT_FOUND)
        return error_set(error, status,
                         "%.200s has no " ADAPTER_FILE
                         " (adapter_model.bin is not read: save the adapter as safetensors)",
                         folder);
    if (status != STATUS_OK)
        return error_set(error, status, "%s", cause.text);
    TRY(safetensors_parse(file->file.data, file->file.bytes, ADAPTER_FILE, &file->tensors, error));
    const uint32_t n = file->tensors.n_tensors;
    file->by_name = calloc(n + 1, sizeof *file->by_name);
    file->is_used = calloc(n + 1, sizeof *file->is_used);
    if (!file->by_name || !file->is_used)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        file->by_name[i] = &file->tensors.tensors[i];
    qsort(file->by_name, n, sizeof *file->by_name, by_name);
    return STATUS_OK;
}

enum status adapter_file_open(const char *folder, uint64_t bytes_max, struct error *error,
                              struct adapter_file *file_out)
{
    struct adapter_file file = {0};
    const enum status status = list(&file, folder, bytes_max, error);
    if (status != STATUS_OK) {
        adapter_file_close(&file);
        return status;
    }
    *file_out = file;
    return STATUS_OK;
}

void adapter_file_close(struct adapter_file *file)
{
    free(file->by_name);
    free(file->is_used);
    safetensors_finish(&file->tensors);
    mapped_file_close(&file->file);
    *file = (struct adapter_file){0};
}

const struct safetensor *adapter_file_find(struct adapter_file *file, const char *name)
{
    uint32_t low = 0, high = file->tensors.n_tensors;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const int order = strcmp(name, file->by_name[middle]->name);
        if (order == 0) {
            file->is_used[middle] = true;
            return file->by_name[middle];
        }
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

bool adapter_file_has_prefix(const struct adapter_file *file, const char *prefix)
{
    for (uint32_t i = 0; i < file->tensors.n_tensors; i++)
        if (strncmp(file->by_name[i]->name, prefix, strlen(prefix)) == 0)
            return true;
    return false;
}

static enum status check_finite(const struct safetensor *tensor, enum dtype dtype,
                                uint64_t n_columns, struct error *error)
{
    const uint64_t n = tensor->bytes / dtype_bytes(dtype);
    for (uint64_t i = 0; i < n; i++) {
        const float value = dtype_load(dtype, tensor->data, i);
        if (!isfinite(value))
            return error_set(error, STATUS_CORRUPT,
                             ADAPTER_FILE ": tensor %.120s is %g at [%" PRIu64 ", %" PRIu64
                                          "], weights must be finite",
                             tensor->name, (double)(isnan(value) ? NAN : value), i / n_columns,
                             i % n_columns);
    }
    return STATUS_OK;
}

enum status adapter_file_check(const struct safetensor *tensor, uint64_t n_rows, uint64_t n_columns,
                               struct error *error, enum dtype *dtype_out)
{
    if (tensor->n_dims != 2 || tensor->shape[0] != n_rows || tensor->shape[1] != n_columns)
        return error_set(error, STATUS_CORRUPT,
                         ADAPTER_FILE ": tensor %.120s has shape [%" PRIu64 ", %" PRIu64
                                      "] (%u dimensions), expected [%" PRIu64 ", %" PRIu64 "]",
                         tensor->name, tensor->shape[0], tensor->shape[1], tensor->n_dims, n_rows,
                         n_columns);
    switch (tensor->dtype) {
    case SAFETENSORS_F32:
        *dtype_out = DTYPE_F32;
        break;
    case SAFETENSORS_BF16:
        *dtype_out = DTYPE_BF16;
        break;
    case SAFETENSORS_F16:
        *dtype_out = DTYPE_F16;
        break;
    default:
        return error_set(error, STATUS_UNSUPPORTED,
                         ADAPTER_FILE
                         ": tensor %.120s has dtype %s, supported are F32, BF16 and F16",
                         tensor->name, safetensors_dtype_name(tensor->dtype));
    }
    return check_finite(tensor, *dtype_out, n_columns, error);
}

static const char *kind_of(const char *name)
{
    static const struct {
        const char *part, *what;
    } KINDS[] = {
        {"lora_magnitude_vector", "DoRA's magnitudes, which are not supported"},
        {"lora_embedding_", "an adapter of the embedding, which is not supported"},
        {"modules_to_save", "a whole matrix beside the adapter, which is not supported"},
        {".experts", "an adapter of experts, which is not supported"},
        {"lm_head", "an adapter of the head, which is not supported"},
        {".bias", "a bias, which is not supported"},
    };
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (strstr(name, KINDS[i].part))
            return KINDS[i].what;
    return "not of a matrix of this model that may have an adapter: attention's Q, K, V and "
           "output, "
           "and the MLP's";
}

enum status adapter_file_check_used(const struct adapter_file *file, struct error *error)
{
    for (uint32_t i = 0; i < file->tensors.n_tensors; i++)
        if (!file->is_used[i])
            return error_set(error, STATUS_UNSUPPORTED, ADAPTER_FILE ": tensor %.160s is %s",
                             file->by_name[i]->name, kind_of(file->by_name[i]->name));
    return STATUS_OK;
}
