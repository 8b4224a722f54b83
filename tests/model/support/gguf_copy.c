#include "tests/model/support/gguf_copy.h"

#include "gguf/gguf_files.h"
#include "model/model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { TYPE_Q8_0 = 8, ALIGNMENT = 32 };

/* A golden, to be changed and written; n_out: its bytes. */
static uint8_t *read_golden(const char *golden, size_t *n_out)
{
    static uint8_t bytes[1 << 20];
    char path[512];
    snprintf(path, sizeof path, GOLDEN_GGUF "/%s.gguf", golden);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    *n_out = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    cr_assert_lt(*n_out, sizeof bytes);
    return bytes;
}

static void write_copy(const uint8_t *bytes, size_t n, const char *path)
{
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, n, file) == n && fclose(file) == 0, "%s", path);
}

void gguf_copy_with_blocks(const char *golden, const char *tensor, const char *path)
{
    size_t n;
    uint8_t *bytes = read_golden(golden, &n);
    uint8_t *name = memmem(bytes, n, tensor, strlen(tensor));
    cr_assert(name, "%s has no %s", golden, tensor);
    uint8_t *at = name + strlen(tensor); /* dimensions, then the type */
    uint32_t n_dims, type = TYPE_Q8_0;
    memcpy(&n_dims, at, sizeof n_dims);
    memcpy(at + sizeof n_dims + n_dims * sizeof(uint64_t), &type, sizeof type);
    write_copy(bytes, n, path);
}

void gguf_copy_with_key(const char *golden, const char *key, const char *name, uint32_t value,
                        const char *path)
{
    size_t n;
    uint8_t *bytes = read_golden(golden, &n);
    uint8_t *at = memmem(bytes, n, key, strlen(key));
    cr_assert(at, "%s has no %s", golden, key);
    if (name)
        memcpy(at, name, strlen(key));
    else
        memcpy(at + strlen(key) + sizeof(uint32_t), &value, sizeof value); /* behind its type */
    write_copy(bytes, n, path);
}

void gguf_copy_refused(const char *path, const char *what, const char *sentence)
{
    struct error error = {""};
    struct model *model = NULL;
    gguf_files_init();
    cr_expect_neq(model_load(path, NULL, &error, &model), STATUS_OK, "%s", what);
    cr_expect(strstr(error.text, sentence), "%s: no \"%s\" in \"%s\"", what, sentence, error.text);
}

void gguf_copy_with_element(const char *golden, const char *key, uint64_t element,
                            size_t element_bytes, uint64_t value, const char *path)
{
    size_t n;
    uint8_t *bytes = read_golden(golden, &n);
    uint8_t *at = memmem(bytes, n, key, strlen(key));
    cr_assert(at, "%s has no %s", golden, key);
    at += strlen(key) + 2 * sizeof(uint32_t); /* behind the two types */
    if (element == UINT64_MAX)
        memcpy(at, &value, sizeof value);
    else
        memcpy(at + sizeof(uint64_t) + element * element_bytes, &value, element_bytes);
    write_copy(bytes, n, path);
}

void gguf_copy_with_float(const char *golden, const float *first, size_t n_first, size_t element,
                          float value, const char *path)
{
    size_t n;
    uint8_t *bytes = read_golden(golden, &n);
    uint8_t *at = memmem(bytes, n, first, n_first * sizeof *first);
    cr_assert(at, "%s has no such floats", golden);
    memcpy(at + element * sizeof value, &value, sizeof value);
    write_copy(bytes, n, path);
}

/* Keys before the others, in a multiple of the bytes to which tensors are aligned. */
static void write_with_keys(const char *golden, uint64_t n_more, const void *keys,
                            size_t bytes_more, const char *path)
{
    enum { COUNT_AT = 16, KEYS_AT = 24 };
    size_t n;
    uint64_t n_keys;
    uint8_t *bytes = read_golden(golden, &n);
    cr_assert(bytes_more % ALIGNMENT == 0, "%zu bytes", bytes_more);
    memcpy(&n_keys, bytes + COUNT_AT, sizeof n_keys);
    n_keys += n_more;
    memcpy(bytes + COUNT_AT, &n_keys, sizeof n_keys);
    memmove(bytes + KEYS_AT + bytes_more, bytes + KEYS_AT, n - KEYS_AT);
    memcpy(bytes + KEYS_AT, keys, bytes_more);
    write_copy(bytes, n + bytes_more, path);
}

void gguf_copy_with_more(const char *golden, const void *key, size_t key_bytes, const char *path)
{
    write_with_keys(golden, 1, key, key_bytes, path);
}

/* Its length, name and kind. Returns what is behind them. */
static uint8_t *add_key(uint8_t *at, const char *name, uint32_t kind)
{
    const uint64_t length = strlen(name);
    memcpy(at, &length, sizeof length);
    at = (uint8_t *)stpcpy((char *)at + sizeof length, name);
    memcpy(at, &kind, sizeof kind);
    return at + sizeof kind;
}

void gguf_copy_with_number(const char *golden, const char *name, enum gguf_kind kind,
                           const void *value, const char *path)
{
    uint8_t keys[256] = {0};
    uint8_t *at = add_key(keys, name, kind);
    memcpy(at, value, gguf_kind_bytes(kind));
    at = add_key(at + gguf_kind_bytes(kind), "filling", GGUF_TEXT);
    const size_t before = (size_t)(at - keys) + sizeof(uint64_t);
    const uint64_t length = (ALIGNMENT - before % ALIGNMENT) % ALIGNMENT;
    memcpy(at, &length, sizeof length);
    write_with_keys(golden, 2, keys, before + length, path);
}
