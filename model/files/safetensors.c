#include "model/files/safetensors.h"

#include "model/files/json_fields.h"

#include <stdlib.h>
#include <string.h>

static const struct dtype_row {
    const char *name;
    uint32_t bytes;
} DTYPES[] = {
#define X(name, bytes) {#name, bytes},
    SAFETENSORS_DTYPES(X)
#undef X
};

enum { N_DTYPES = sizeof DTYPES / sizeof *DTYPES, LENGTH_BYTES = 8 };

const char *safetensors_dtype_name(enum safetensors_dtype dtype)
{
    return DTYPES[dtype].name;
}

/* The data section, while the header is read. */
struct data_section {
    const uint8_t *data;
    uint64_t bytes;
    const char *file;
    struct error *error;
};

static enum status corrupt(const struct data_section *section, const char *tensor, const char *what)
{
    return error_set(section->error, STATUS_CORRUPT, "%s: tensor %.120s: %s", section->file, tensor,
                     what);
}

static enum status read_dtype(const struct data_section *section, const json_t *value,
                              struct safetensor *tensor)
{
    const char *name = json_string_value(value);
    if (!name)
        return corrupt(section, tensor->name, "dtype is missing or not a string");
    for (unsigned i = 0; i < N_DTYPES; i++) {
        if (strcmp(DTYPES[i].name, name) == 0) {
            tensor->dtype = (enum safetensors_dtype)i;
            return STATUS_OK;
        }
    }
    return error_set(section->error, STATUS_UNSUPPORTED,
                     "%s: tensor %.120s: dtype \"%.40s\" is not supported", section->file,
                     tensor->name, name);
}

/* Also computes the bytes of the tensor, with a check for overflow. */
static enum status read_shape(const struct data_section *section, const json_t *value,
                              struct safetensor *tensor)
{
    if (!json_is_array(value))
        return corrupt(section, tensor->name, "shape is missing or not a list");
    if (json_array_size(value) > TENSOR_DIMS_MAX)
        return corrupt(section, tensor->name, "shape has more than 8 dimensions");
    tensor->n_dims = (uint32_t)json_array_size(value);
    tensor->bytes = DTYPES[tensor->dtype].bytes;
    for (uint32_t i = 0; i < tensor->n_dims; i++) {
        const json_t *dim = json_array_get(value, i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return corrupt(section, tensor->name, "shape has an element that is not a size");
        tensor->shape[i] = (uint64_t)json_integer_value(dim);
        if (__builtin_mul_overflow(tensor->bytes, tensor->shape[i], &tensor->bytes))
            return corrupt(section, tensor->name, "shape's product overflows");
    }
    return STATUS_OK;
}

static enum status read_offsets(const struct data_section *section, const json_t *value,
                                struct safetensor *tensor)
{
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end) ||
        json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
        return corrupt(section, tensor->name, "data_offsets is not [begin, end]");
    uint64_t from = (uint64_t)json_integer_value(begin), to = (uint64_t)json_integer_value(end);
    if (to > section->bytes)
        return error_set(section->error, STATUS_CORRUPT,
                         "%s: tensor %.120s: data_offsets end at %llu, the data has %llu bytes "
                         "(truncated?)",
                         section->file, tensor->name, (unsigned long long)to,
                         (unsigned long long)section->bytes);
    if (to - from != tensor->bytes)
        return error_set(
            section->error, STATUS_CORRUPT,
            "%s: tensor %.120s: data_offsets span %llu bytes, shape and dtype need %llu",
            section->file, tensor->name, (unsigned long long)(to - from),
            (unsigned long long)tensor->bytes);
    tensor->data = section->data + from;
    return STATUS_OK;
}

static enum status read_tensor(const struct data_section *section, const char *name,
                               const json_t *entry, struct safetensor *tensor)
{
    tensor->name = strdup(name);
    if (!tensor->name)
        return STATUS_NO_MEMORY;
    if (!json_is_object(entry))
        return corrupt(section, name, "its entry is not an object");
    if (json_object_size(entry) > 3)
        return corrupt(section, name, "its entry has more than dtype, shape and data_offsets");
    TRY(read_dtype(section, json_object_get(entry, "dtype"), tensor));
    TRY(read_shape(section, json_object_get(entry, "shape"), tensor));
    return read_offsets(section, json_object_get(entry, "data_offsets"), tensor);
}

/* If two tensors start at the same byte, the empty one comes first: check_tiling needs this order. */
static int by_data(const void *left, const void *right)
{
    const struct safetensor *a = left, *b = right;
    if (a->data != b->data)
        return a->data < b->data ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

/* The format allows no gap and no overlap between tensors. */
static enum status check_tiling(const struct data_section *section,
                                const struct safetensors *safetensors)
{
    const uint8_t *end = section->data;
    for (uint32_t i = 0; i < safetensors->n_tensors; i++) {
        const struct safetensor *tensor = &safetensors->tensors[i];
        if (tensor->data < end)
            return corrupt(section, tensor->name, "its data overlaps another tensor's");
        if (tensor->data > end)
            return corrupt(section, tensor->name, "there is a hole before its data");
        end = tensor->data + tensor->bytes;
    }
    if (end != section->data + section->bytes)
        return error_set(section->error, STATUS_CORRUPT,
                         "%s: %llu bytes are left over after the last tensor", section->file,
                         (unsigned long long)(section->data + section->bytes - end));
    return STATUS_OK;
}

static enum status check_metadata(const struct data_section *section, const json_t *metadata)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return error_set(section->error, STATUS_CORRUPT, "%s: __metadata__ is not an object",
                         section->file);
    json_object_foreach((json_t *)(uintptr_t)metadata, key, value)
    {
        if (!json_is_string(value))
            return error_set(section->error, STATUS_CORRUPT,
                             "%s: __metadata__.%.80s is not a string", section->file, key);
    }
    return STATUS_OK;
}

static enum status read_tensors(const struct data_section *section, json_t *header,
                                struct safetensors *safetensors)
{
    const char *name;
    json_t *entry;
    size_t n = json_object_size(header);
    if (n > TENSORS_MAX)
        return error_set(section->error, STATUS_CORRUPT, "%s: header has %zu tensors, at most %u",
                         section->file, n, TENSORS_MAX);
    safetensors->tensors = calloc(n + 1, sizeof *safetensors->tensors);
    if (!safetensors->tensors)
        return STATUS_NO_MEMORY;
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0)
            TRY(check_metadata(section, entry));
        else
            TRY(read_tensor(section, name, entry, &safetensors->tensors[safetensors->n_tensors++]));
    }
    qsort(safetensors->tensors, safetensors->n_tensors, sizeof *safetensors->tensors, by_data);
    return check_tiling(section, safetensors);
}

static enum status header_bytes(const uint8_t *file, size_t bytes, const char *file_name,
                                uint64_t *bytes_out, struct error *error)
{
    uint64_t length = 0;
    if (bytes < LENGTH_BYTES)
        return error_set(error, STATUS_CORRUPT, "%s: %zu bytes cannot hold the header's length",
                         file_name, bytes);
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | file[i];
    if (length > SAFETENSORS_HEADER_BYTES_MAX)
        return error_set(error, STATUS_CORRUPT, "%s: header length is %llu, at most %u", file_name,
                         (unsigned long long)length, SAFETENSORS_HEADER_BYTES_MAX);
    if (length > bytes - LENGTH_BYTES)
        return error_set(error, STATUS_CORRUPT,
                         "%s: header length is %llu, the file has %zu bytes (truncated?)",
                         file_name, (unsigned long long)length, bytes);
    if (length == 0 || file[LENGTH_BYTES] != '{')
        return error_set(error, STATUS_CORRUPT, "%s: header does not begin with {", file_name);
    *bytes_out = length;
    return STATUS_OK;
}

enum status safetensors_parse(const void *file, size_t bytes, const char *file_name,
                              struct safetensors *safetensors_out, struct error *error)
{
    const uint8_t *start = file;
    struct safetensors safetensors = {0};
    uint64_t length;
    json_t *header;
    TRY(header_bytes(start, bytes, file_name, &length, error));
    TRY(json_fields_parse((const char *)start + LENGTH_BYTES, length, file_name, &header, error));
    struct data_section section = {
        .data = start + LENGTH_BYTES + length,
        .bytes = bytes - LENGTH_BYTES - length,
        .file = file_name,
        .error = error,
    };
    enum status status = read_tensors(&section, header, &safetensors);
    json_decref(header);
    if (status != STATUS_OK) {
        safetensors_finish(&safetensors);
        return status;
    }
    *safetensors_out = safetensors;
    return STATUS_OK;
}

void safetensors_finish(struct safetensors *safetensors)
{
    for (uint32_t i = 0; i < safetensors->n_tensors; i++)
        free(safetensors->tensors[i].name);
    free(safetensors->tensors);
    *safetensors = (struct safetensors){0};
}
