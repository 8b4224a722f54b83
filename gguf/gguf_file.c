#include "gguf/gguf_file.h"

#include "base/regular_file.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const char MAGIC[4] = {'G', 'G', 'U', 'F'};

static const struct type_row {
    const char *name;
    uint32_t number;
    uint16_t elements, bytes;
} TYPES[] = {
#define X(name, number, elements, bytes) {#name, number, elements, bytes},
    GGUF_TYPES(X)
#undef X
};

/* Types that are not read, by their number. */
static const struct {
    uint32_t number;
    const char *name;
} OTHER_TYPES[] = {
    {9, "Q8_1"},    {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
    {20, "IQ4_NL"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {23, "IQ4_XS"}, {24, "I8"},      {25, "I16"},
    {26, "I32"},    {27, "I64"},   {28, "F64"},     {29, "IQ1_M"},  {34, "TQ1_0"},   {35, "TQ2_0"},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* ---- reading ---- */

struct reader {
    const uint8_t *at, *end;
    const char *file;
    struct error *error;
};

static enum status cut_off(const struct reader *reader, const char *what)
{
    return error_set(reader->error, STATUS_CORRUPT, "%.150s ends inside of %s", reader->file, what);
}

static enum status read_number(struct reader *reader, uint32_t n_bytes, const char *what,
                               uint64_t *value_out)
{
    if ((size_t)(reader->end - reader->at) < n_bytes)
        return cut_off(reader, what);
    *value_out = gguf_little(reader->at, n_bytes);
    reader->at += n_bytes;
    return STATUS_OK;
}

static enum status read_text(struct reader *reader, const char *what, struct gguf_text *text_out)
{
    uint64_t n = 0;
    TRY(read_number(reader, 8, what, &n));
    if (n > (uint64_t)(reader->end - reader->at))
        return cut_off(reader, what);
    *text_out = (struct gguf_text){(const char *)reader->at, (size_t)n};
    reader->at += n;
    return STATUS_OK;
}

/* A name of a key or tensor, with which sentences can be written. */
static enum status read_name(struct reader *reader, const char *what, struct gguf_text *name_out)
{
    TRY(read_text(reader, what, name_out));
    if (name_out->n == 0 || name_out->n > GGUF_NAME_MAX)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%.150s: %s has %zu bytes, expected 1 .. %u", reader->file, what,
                         name_out->n, GGUF_NAME_MAX);
    if (memchr(name_out->bytes, '\0', name_out->n))
        return error_set(reader->error, STATUS_CORRUPT, "%.150s: %s has a NUL", reader->file, what);
    return STATUS_OK;
}

static enum status read_kind(struct reader *reader, const struct gguf_key *key,
                             enum gguf_kind *kind_out)
{
    uint64_t kind = 0;
    TRY(read_number(reader, 4, "the kind of a key", &kind));
    if (kind > GGUF_F64)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%.100s: key %.*s has kind %" PRIu64 ", expected 0 .. %d", reader->file,
                         (int)key->name.n, key->name.bytes, kind, GGUF_F64);
    *kind_out = (enum gguf_kind)kind;
    return STATUS_OK;
}

static enum status read_array(struct reader *reader, struct gguf_key *key)
{
    TRY(read_kind(reader, key, &key->kind));
    if (key->kind == GGUF_ARRAY)
        return error_set(reader->error, STATUS_UNSUPPORTED,
                         "%.100s: key %.*s is an array of arrays, which is not read", reader->file,
                         (int)key->name.n, key->name.bytes);
    key->is_array = true;
    return read_number(reader, 8, "the length of an array", &key->n);
}

/* Walks over n elements. */
static enum status skip_elements(struct reader *reader, const struct gguf_key *key)
{
    const uint32_t bytes = gguf_kind_bytes(key->kind);
    if (bytes > 0) {
        if (key->n > (uint64_t)(reader->end - reader->at) / bytes)
            return cut_off(reader, "the value of a key");
        reader->at += key->n * bytes;
        return STATUS_OK;
    }
    for (uint64_t i = 0; i < key->n; i++) {
        struct gguf_text text;
        TRY(read_text(reader, "the value of a key", &text));
    }
    return STATUS_OK;
}

static enum status read_key(struct reader *reader, struct gguf_key *key)
{
    *key = (struct gguf_key){.n = 1};
    TRY(read_name(reader, "the name of a key", &key->name));
    TRY(read_kind(reader, key, &key->kind));
    if (key->kind == GGUF_ARRAY)
        TRY(read_array(reader, key));
    key->at = reader->at;
    TRY(skip_elements(reader, key));
    key->end = reader->at;
    return STATUS_OK;
}

/* ---- tensors ---- */

static enum status refuse_type(const struct reader *reader, const struct gguf_tensor *tensor,
                               uint64_t number)
{
    for (size_t i = 0; i < COUNT(OTHER_TYPES); i++)
        if (OTHER_TYPES[i].number == number)
            return error_set(reader->error, STATUS_UNSUPPORTED,
                             "%.80s: tensor %.*s has type %s, which is not read: take a file with "
                             "Q4_K, Q6_K, Q8_0 or another type of these",
                             reader->file, (int)tensor->name.n, tensor->name.bytes,
                             OTHER_TYPES[i].name);
    return error_set(reader->error, STATUS_UNSUPPORTED,
                     "%.100s: tensor %.*s has type %" PRIu64 ", which is not known", reader->file,
                     (int)tensor->name.n, tensor->name.bytes, number);
}

static enum status read_type(struct reader *reader, struct gguf_tensor *tensor)
{
    uint64_t number = 0;
    TRY(read_number(reader, 4, "the type of a tensor", &number));
    for (size_t i = 0; i < COUNT(TYPES); i++)
        if (TYPES[i].number == number) {
            tensor->type = (enum gguf_type)i;
            return STATUS_OK;
        }
    return refuse_type(reader, tensor, number);
}

static enum status read_dims(struct reader *reader, struct gguf_tensor *tensor)
{
    uint64_t n_dims = 0;
    TRY(read_number(reader, 4, "the dimensions of a tensor", &n_dims));
    if (n_dims == 0 || n_dims > GGUF_DIMS_MAX)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%.100s: tensor %.*s has %" PRIu64 " dimensions, expected 1 .. %u",
                         reader->file, (int)tensor->name.n, tensor->name.bytes, n_dims,
                         GGUF_DIMS_MAX);
    tensor->n_dims = (uint32_t)n_dims;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        TRY(read_number(reader, 8, "the dimensions of a tensor", &tensor->dims[i]));
    return STATUS_OK;
}

/* The bytes of all rows; checked against overflow. */
static enum status count_bytes(const struct reader *reader, struct gguf_tensor *tensor)
{
    const struct type_row *type = &TYPES[tensor->type];
    uint64_t bytes;
    if (tensor->dims[0] == 0 || tensor->dims[0] % type->elements != 0)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%.80s: tensor %.*s has rows of %" PRIu64
                         " elements, no whole number of the blocks of %u that %s has",
                         reader->file, (int)tensor->name.n, tensor->name.bytes, tensor->dims[0],
                         type->elements, type->name);
    bool overflows = __builtin_mul_overflow(tensor->dims[0] / type->elements, (uint64_t)type->bytes,
                                            &bytes);
    for (uint32_t i = 1; i < tensor->n_dims; i++)
        overflows |= tensor->dims[i] == 0 || __builtin_mul_overflow(bytes, tensor->dims[i], &bytes);
    if (overflows)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%.100s: the dimensions of tensor %.*s are 0 or too large", reader->file,
                         (int)tensor->name.n, tensor->name.bytes);
    tensor->bytes = bytes;
    return STATUS_OK;
}

/* *offset_out: from the begin of the data. */
static enum status read_tensor(struct reader *reader, struct gguf_tensor *tensor,
                               uint64_t *offset_out)
{
    *tensor = (struct gguf_tensor){.n_dims = 0};
    TRY(read_name(reader, "the name of a tensor", &tensor->name));
    TRY(read_dims(reader, tensor));
    TRY(read_type(reader, tensor));
    TRY(read_number(reader, 8, "the place of a tensor", offset_out));
    return count_bytes(reader, tensor);
}

static enum status place(const struct reader *reader, const uint8_t *data, uint64_t alignment,
                         uint64_t offset, struct gguf_tensor *tensor)
{
    const uint64_t room = (uint64_t)(reader->end - data);
    if (offset % alignment != 0)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%.100s: tensor %.*s begins at %" PRIu64
                         ", no multiple of the alignment %" PRIu64,
                         reader->file, (int)tensor->name.n, tensor->name.bytes, offset, alignment);
    if (offset > room || tensor->bytes > room - offset)
        return error_set(
            reader->error, STATUS_CORRUPT,
            "%.100s: tensor %.*s of %" PRIu64 " bytes at %" PRIu64 " ends behind the file",
            reader->file, (int)tensor->name.n, tensor->name.bytes, tensor->bytes, offset);
    tensor->data = data + offset;
    return STATUS_OK;
}

/* ---- one file ---- */

static int by_place(const void *left, const void *right)
{
    const struct gguf_tensor *a = left, *b = right;
    return (a->data > b->data) - (a->data < b->data);
}

static enum status read_head(struct reader *reader, uint64_t *n_tensors_out, uint64_t *n_keys_out)
{
    uint64_t version = 0;
    if (reader->end - reader->at < 4 || memcmp(reader->at, MAGIC, sizeof MAGIC) != 0)
        return error_set(reader->error, STATUS_CORRUPT, "%.150s does not begin with GGUF",
                         reader->file);
    reader->at += sizeof MAGIC;
    TRY(read_number(reader, 4, "its head", &version));
    if (version == 2u << 24 || version == 3u << 24)
        return error_set(reader->error, STATUS_UNSUPPORTED,
                         "%.150s is big-endian, which is not read", reader->file);
    if (version != 2 && version != 3)
        return error_set(reader->error, STATUS_UNSUPPORTED,
                         "%.150s has version %" PRIu64 " of GGUF, supported are 2 and 3",
                         reader->file, version);
    TRY(read_number(reader, 8, "its head", n_tensors_out));
    TRY(read_number(reader, 8, "its head", n_keys_out));
    if (*n_keys_out > GGUF_KEYS_MAX || *n_tensors_out > GGUF_TENSORS_MAX)
        return error_set(reader->error, STATUS_CORRUPT,
                         "%.150s has %" PRIu64 " keys and %" PRIu64 " tensors, at most %u and %u",
                         reader->file, *n_keys_out, *n_tensors_out, GGUF_KEYS_MAX,
                         GGUF_TENSORS_MAX);
    return STATUS_OK;
}

static enum status read_keys(struct reader *reader, uint64_t n, struct gguf_file *file)
{
    file->keys = calloc(n + 1, sizeof *file->keys);
    if (!file->keys)
        return STATUS_NO_MEMORY;
    for (; file->n_keys < n; file->n_keys++)
        TRY(read_key(reader, &file->keys[file->n_keys]));
    qsort(file->keys, file->n_keys, sizeof *file->keys, gguf_by_key);
    for (uint32_t i = 1; i < file->n_keys; i++)
        if (gguf_by_key(&file->keys[i - 1], &file->keys[i]) == 0)
            return error_set(reader->error, STATUS_CORRUPT, "%.100s has key %.*s twice",
                             reader->file, (int)file->keys[i].name.n, file->keys[i].name.bytes);
    return STATUS_OK;
}

static enum status check_overlaps(const struct reader *reader, struct gguf_tensor *tensors,
                                  uint32_t n)
{
    qsort(tensors, n, sizeof *tensors, by_place);
    for (uint32_t i = 1; i < n; i++)
        if (tensors[i - 1].bytes > (uint64_t)(tensors[i].data - tensors[i - 1].data))
            return error_set(reader->error, STATUS_CORRUPT, "%.80s: tensors %.*s and %.*s overlap",
                             reader->file, (int)tensors[i - 1].name.n, tensors[i - 1].name.bytes,
                             (int)tensors[i].name.n, tensors[i].name.bytes);
    return STATUS_OK;
}

/* Appends the tensors of a part. offsets: scratch for n numbers. */
static enum status read_tensors(struct reader *reader, const uint8_t *begin, uint64_t alignment,
                                uint64_t n, uint64_t *offsets, struct gguf_file *file)
{
    struct gguf_tensor *tensors = file->tensors + file->n_tensors;
    for (uint64_t i = 0; i < n; i++) {
        TRY(read_tensor(reader, &tensors[i], &offsets[i]));
        tensors[i].part = file->n_parts - 1;
    }
    const uint64_t head = (uint64_t)(reader->at - begin);
    const uint64_t data = (head + alignment - 1) / alignment * alignment;
    if (n > 0 && data > (uint64_t)(reader->end - begin))
        return cut_off(reader, "what fills up its head");
    for (uint64_t i = 0; i < n; i++)
        TRY(place(reader, begin + data, alignment, offsets[i], &tensors[i]));
    file->n_tensors += (uint32_t)n;
    return check_overlaps(reader, tensors, (uint32_t)n);
}

static enum status read_alignment(const struct gguf_file *keys, struct error *error,
                                  uint64_t *alignment_out)
{
    *alignment_out = 32;
    TRY(gguf_u64(keys, "general.alignment", 8, 1u << 20, alignment_out, error));
    if ((*alignment_out & (*alignment_out - 1)) != 0)
        return error_set(error, STATUS_CORRUPT,
                         "general.alignment is %" PRIu64 ", expected a power of two",
                         *alignment_out);
    return STATUS_OK;
}

/* Reads a part that file->parts has already. The keys of later parts are read and forgotten. */
static enum status read_part(struct gguf_file *file, struct error *error)
{
    const struct gguf_part *part = &file->parts[file->n_parts - 1];
    struct reader reader = {part->data, part->data + part->bytes, part->name, error};
    struct gguf_file own = {.n_parts = 0};
    struct gguf_file *keys = file->keys ? &own : file;
    uint64_t n_tensors = 0, n_keys = 0, alignment = 0, *offsets = NULL;
    TRY(read_head(&reader, &n_tensors, &n_keys));
    enum status status = read_keys(&reader, n_keys, keys);
    if (status == STATUS_OK)
        status = read_alignment(keys, error, &alignment);
    free(own.keys);
    TRY(status);
    if (n_tensors > GGUF_TENSORS_MAX - file->n_tensors)
        return error_set(error, STATUS_CORRUPT, "the parts of the model have more than %u tensors",
                         GGUF_TENSORS_MAX);
    struct gguf_tensor *tensors = realloc(file->tensors,
                                          (file->n_tensors + n_tensors + 1) * sizeof *tensors);
    if (!tensors)
        return STATUS_NO_MEMORY;
    file->tensors = tensors;
    offsets = calloc(n_tensors + 1, sizeof *offsets);
    if (!offsets)
        return STATUS_NO_MEMORY;
    status = read_tensors(&reader, part->data, alignment, n_tensors, offsets, file);
    free(offsets);
    return status;
}

static enum status sort_tensors(struct gguf_file *file, struct error *error)
{
    assert(file->tensors && "read_part has made it");
    qsort(file->tensors, file->n_tensors, sizeof *file->tensors, gguf_by_tensor);
    for (uint32_t i = 1; i < file->n_tensors; i++)
        if (gguf_by_tensor(&file->tensors[i - 1], &file->tensors[i]) == 0)
            return error_set(error, STATUS_CORRUPT, "%.100s has tensor %.*s twice",
                             file->parts[file->tensors[i].part].name, (int)file->tensors[i].name.n,
                             file->tensors[i].name.bytes);
    return STATUS_OK;
}

enum status gguf_parse(const void *data, size_t bytes, const char *name, struct gguf_file *file_out,
                       struct error *error)
{
    struct gguf_file file = {.parts = calloc(1, sizeof *file.parts), .n_parts = 1};
    if (!file.parts)
        return STATUS_NO_MEMORY;
    file.parts[0] = (struct gguf_part){.data = data, .bytes = bytes};
    snprintf(file.parts[0].name, sizeof file.parts[0].name, "%s", name);
    enum status status = read_part(&file, error);
    if (status == STATUS_OK)
        status = sort_tensors(&file, error);
    if (status != STATUS_OK) {
        gguf_close(&file);
        return status;
    }
    *file_out = file;
    return STATUS_OK;
}

/* ---- files ---- */

bool gguf_is(const char *path)
{
    char magic[sizeof MAGIC];
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return false;
    const bool is_gguf = read(descriptor, magic, sizeof magic) == (ssize_t)sizeof magic &&
                         memcmp(magic, MAGIC, sizeof magic) == 0;
    close(descriptor);
    return is_gguf;
}

/* Divides a path into folder and name. */
static enum status divide(const char *path, char folder_out[PATH_MAX], char name_out[PATH_MAX],
                          struct error *error)
{
    const char *slash = strrchr(path, '/');
    if (strlen(path) >= PATH_MAX)
        return error_set(error, STATUS_CORRUPT, "%.200s: path is too long", path);
    snprintf(name_out, PATH_MAX, "%s", slash ? slash + 1 : path);
    snprintf(folder_out, PATH_MAX, "%.*s", slash ? (int)(slash - path) + (slash == path) : 1,
             slash ? path : ".");
    return STATUS_OK;
}

static enum status map_part(const char *folder, const char *name, struct gguf_file *file,
                            struct error *error)
{
    int descriptor;
    size_t bytes;
    if (strlen(name) > GGUF_NAME_MAX)
        return error_set(error, STATUS_CORRUPT, "%.100s ...: the name is too long", name);
    TRY(regular_file_open_in(folder, name, UINT64_MAX, &descriptor, &bytes, error));
    void *data = bytes > 0 ? mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, descriptor, 0) : NULL;
    const int reason = errno;
    close(descriptor);
    if (data == MAP_FAILED)
        return error_set(error, errno_status(reason), "%.200s: %s", name, strerror(reason));
    struct gguf_part *part = &file->parts[file->n_parts++];
    *part = (struct gguf_part){.data = data, .bytes = bytes};
    snprintf(part->name, sizeof part->name, "%s", name);
    return read_part(file, error);
}

/* NAME-00001-of-00003.gguf: where the number of the part stands; NULL: the name is no part's. */
static char *part_number(char *name)
{
    static const size_t TAIL = sizeof "-00001-of-00003.gguf" - 1;
    const size_t n = strlen(name);
    unsigned part, parts;
    int used = 0;
    char *at = n > TAIL ? name + n - TAIL : NULL;
    if (!at || sscanf(at, "-%5u-of-%5u.gguf%n", &part, &parts, &used) != 2 || used != (int)TAIL)
        return NULL;
    return at + 1;
}

static enum status map_others(const char *folder, char *name, struct gguf_file *file,
                              struct error *error)
{
    uint64_t n_parts = 1;
    TRY(gguf_u64(file, "split.count", 1, GGUF_PARTS_MAX, &n_parts, error));
    if (n_parts == 1)
        return STATUS_OK;
    char *number = part_number(name), digits[8];
    if (!number || strncmp(number, "00001", 5) != 0)
        return error_set(error, STATUS_CORRUPT,
                         "%.150s is a part of %" PRIu64
                         ": name the first one, NAME-00001-of-%05" PRIu64 ".gguf",
                         name, n_parts, n_parts);
    for (uint64_t part = 2; part <= n_parts; part++) {
        snprintf(digits, sizeof digits, "%05u", (unsigned)part);
        memcpy(number, digits, 5);
        TRY(map_part(folder, name, file, error));
    }
    return STATUS_OK;
}

static enum status open_all(const char *path, struct gguf_file *file, struct error *error)
{
    char folder[PATH_MAX], name[PATH_MAX];
    TRY(divide(path, folder, name, error));
    file->is_mapped = true;
    file->parts = calloc(GGUF_PARTS_MAX, sizeof *file->parts);
    if (!file->parts)
        return STATUS_NO_MEMORY;
    TRY(map_part(folder, name, file, error));
    TRY(map_others(folder, name, file, error));
    return sort_tensors(file, error);
}

enum status gguf_open(const char *path, struct gguf_file *file_out, struct error *error)
{
    struct gguf_file file = {.n_parts = 0};
    enum status status = open_all(path, &file, error);
    if (status != STATUS_OK) {
        gguf_close(&file);
        return status;
    }
    *file_out = file;
    return STATUS_OK;
}

void gguf_close(struct gguf_file *file)
{
    for (uint32_t i = 0; file->is_mapped && i < file->n_parts; i++)
        if (file->parts[i].data)
            munmap((void *)(uintptr_t)file->parts[i].data, file->parts[i].bytes);
    free(file->parts);
    free(file->keys);
    free(file->tensors);
    *file = (struct gguf_file){.n_parts = 0};
}
