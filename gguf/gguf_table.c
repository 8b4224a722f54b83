#include "gguf/gguf_table.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool gguf_text_is(struct gguf_text text, const char *word)
{
    return strlen(word) == text.n && memcmp(text.bytes, word, text.n) == 0;
}

static int compare_texts(struct gguf_text a, struct gguf_text b)
{
    const size_t n = a.n < b.n ? a.n : b.n;
    const int order = memcmp(a.bytes, b.bytes, n);
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

uint64_t gguf_little(const uint8_t *bytes, uint32_t n)
{
    uint64_t value = 0;
    for (uint32_t i = 0; i < n; i++)
        value |= (uint64_t)bytes[i] << 8 * i;
    return value;
}

uint32_t gguf_kind_bytes(enum gguf_kind kind)
{
    static const uint8_t BYTES[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return BYTES[kind];
}

int gguf_by_key(const void *left, const void *right)
{
    return compare_texts(((const struct gguf_key *)left)->name,
                         ((const struct gguf_key *)right)->name);
}

int gguf_by_tensor(const void *left, const void *right)
{
    return compare_texts(((const struct gguf_tensor *)left)->name,
                         ((const struct gguf_tensor *)right)->name);
}

/* ---- values ---- */

const struct gguf_key *gguf_find(const struct gguf_file *file, const char *name)
{
    const struct gguf_key wanted = {.name = {name, strlen(name)}};
    return file->n_keys > 0 ? bsearch(&wanted, file->keys, file->n_keys, sizeof wanted, gguf_by_key)
                            : NULL;
}

const struct gguf_tensor *gguf_find_tensor(const struct gguf_file *file, const char *name)
{
    const struct gguf_tensor wanted = {.name = {name, strlen(name)}};
    return file->n_tensors > 0
               ? bsearch(&wanted, file->tensors, file->n_tensors, sizeof wanted, gguf_by_tensor)
               : NULL;
}

static double number_of(enum gguf_kind kind, const uint8_t *at)
{
    const uint64_t bits = gguf_little(at, gguf_kind_bytes(kind));
    float single;
    double real;
    switch (kind) {
    case GGUF_I8:
        return (int8_t)bits;
    case GGUF_I16:
        return (int16_t)bits;
    case GGUF_I32:
        return (int32_t)bits;
    case GGUF_I64:
        return (double)(int64_t)bits;
    case GGUF_F32:
        memcpy(&single, at, sizeof single);
        return (double)single;
    case GGUF_F64:
        memcpy(&real, at, sizeof real);
        return real;
    default:
        return (double)bits;
    }
}

double gguf_number_at(const struct gguf_key *key, uint64_t i)
{
    assert(i < key->n && gguf_kind_bytes(key->kind) > 0);
    return number_of(key->kind, key->at + i * gguf_kind_bytes(key->kind));
}

static enum status wrong_kind(const char *name, const char *expected, struct error *error)
{
    return error_set(error, STATUS_CORRUPT, "key %s is not %s", name, expected);
}

enum status gguf_real(const struct gguf_file *file, const char *name, double *value_out,
                      struct error *error)
{
    const struct gguf_key *key = gguf_find(file, name);
    if (!key)
        return STATUS_OK;
    if (key->is_array || key->kind == GGUF_TEXT || key->kind == GGUF_BOOL)
        return wrong_kind(name, "a number", error);
    const double value = gguf_number_at(key, 0);
    if (!isfinite(value))
        return wrong_kind(name, "a finite number", error);
    *value_out = value;
    return STATUS_OK;
}

enum status gguf_require(const struct gguf_file *file, const char *name, struct error *error)
{
    if (gguf_find(file, name))
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT, "key %s is missing", name);
}

enum status gguf_u64(const struct gguf_file *file, const char *name, uint64_t min, uint64_t max,
                     uint64_t *value_out, struct error *error)
{
    double value = (double)min;
    if (!gguf_find(file, name))
        return STATUS_OK;
    TRY(gguf_real(file, name, &value, error));
    if (value != floor(value) || value < (double)min || value > (double)max)
        return error_set(error, STATUS_CORRUPT,
                         "key %s is %.15g, expected a whole number %" PRIu64 " .. %" PRIu64, name,
                         value, min, max);
    *value_out = (uint64_t)value;
    return STATUS_OK;
}

enum status gguf_bool(const struct gguf_file *file, const char *name, bool *value_out,
                      struct error *error)
{
    const struct gguf_key *key = gguf_find(file, name);
    if (!key)
        return STATUS_OK;
    if (key->is_array || key->kind != GGUF_BOOL)
        return wrong_kind(name, "true or false", error);
    *value_out = key->at[0] != 0;
    return STATUS_OK;
}

enum status gguf_text(const struct gguf_file *file, const char *name, struct gguf_text *value_out,
                      struct error *error)
{
    const struct gguf_key *key = gguf_find(file, name);
    if (!key)
        return STATUS_OK;
    if (key->is_array || key->kind != GGUF_TEXT)
        return wrong_kind(name, "a text", error);
    const uint8_t *at = key->at;
    *value_out = gguf_next_text(&at);
    return STATUS_OK;
}

enum status gguf_array(const struct gguf_file *file, const char *name,
                       const struct gguf_key **key_out, struct error *error)
{
    const struct gguf_key *key = gguf_find(file, name);
    *key_out = key;
    if (key && !key->is_array)
        return wrong_kind(name, "an array", error);
    return STATUS_OK;
}

struct gguf_text gguf_next_text(const uint8_t **at)
{
    const struct gguf_text text = {(const char *)*at + 8, (size_t)gguf_little(*at, 8)};
    *at += 8 + text.n;
    return text;
}
