/* gguf_file: every broken header is refused with a sentence, and no byte behind the file is read. */
#include "base/random.h"
#include "gguf/gguf_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES_MAX = 8192 };

struct bytes {
    uint8_t data[BYTES_MAX];
    size_t n;
};

static void put(struct bytes *bytes, uint64_t value, uint32_t n)
{
    cr_assert_leq(bytes->n + n, BYTES_MAX);
    for (uint32_t i = 0; i < n; i++)
        bytes->data[bytes->n++] = (uint8_t)(value >> 8 * i);
}

static void put_text(struct bytes *bytes, const char *text)
{
    put(bytes, strlen(text), 8);
    for (; *text; text++)
        put(bytes, (uint8_t)*text, 1);
}

static void put_head(struct bytes *bytes, uint32_t version, uint64_t n_tensors, uint64_t n_keys)
{
    for (const char *magic = "GGUF"; *magic; magic++)
        put(bytes, (uint8_t)*magic, 1);
    put(bytes, version, 4);
    put(bytes, n_tensors, 8);
    put(bytes, n_keys, 8);
}

static void put_u32(struct bytes *bytes, const char *key, uint32_t value)
{
    put_text(bytes, key);
    put(bytes, GGUF_U32, 4);
    put(bytes, value, 4);
}

static void put_tensor(struct bytes *bytes, const char *name, uint32_t n_dims, const uint64_t *dims,
                       uint32_t type, uint64_t offset)
{
    put_text(bytes, name);
    put(bytes, n_dims, 4);
    for (uint32_t i = 0; i < n_dims; i++)
        put(bytes, dims[i], 8);
    put(bytes, type, 4);
    put(bytes, offset, 8);
}

static void fill_up(struct bytes *bytes, size_t n_data)
{
    while (bytes->n % 32 != 0)
        put(bytes, 0, 1);
    for (size_t i = 0; i < n_data; i++)
        put(bytes, 0, 1);
}

/* In memory of just that size, so that AddressSanitizer sees a byte too many. */
static enum status parse(const struct bytes *bytes, size_t n, struct error *error)
{
    uint8_t *copy = malloc(n + (n == 0));
    struct gguf_file file;
    memcpy(copy, bytes->data, n);
    error_write(error, "%s", "");
    enum status status = gguf_parse(copy, n, "x.gguf", &file, error);
    if (status == STATUS_OK) {
        for (uint32_t i = 0; i < file.n_tensors; i++)
            cr_assert(file.tensors[i].data >= copy &&
                      file.tensors[i].data + file.tensors[i].bytes <= copy + n);
        gguf_close(&file);
    }
    free(copy);
    return status;
}

static struct bytes good_file(void)
{
    struct bytes bytes = {.n = 0};
    put_head(&bytes, 3, 2, 4);
    put_u32(&bytes, "general.alignment", 32);
    put_text(&bytes, "general.architecture");
    put(&bytes, GGUF_TEXT, 4);
    put_text(&bytes, "llama");
    put_text(&bytes, "words");
    put(&bytes, GGUF_ARRAY, 4);
    put(&bytes, GGUF_TEXT, 4);
    put(&bytes, 3, 8);
    put_text(&bytes, "a");
    put_text(&bytes, "");
    put_text(&bytes, "ccc");
    put_text(&bytes, "numbers");
    put(&bytes, GGUF_ARRAY, 4);
    put(&bytes, GGUF_I16, 4);
    put(&bytes, 2, 8);
    put(&bytes, 0xfffe, 2);
    put(&bytes, 7, 2);
    put_tensor(&bytes, "t0", 2, (const uint64_t[]){32, 4}, 0, 0);
    put_tensor(&bytes, "t1", 1, (const uint64_t[]){64}, 8, 512);
    fill_up(&bytes, 512 + 68);
    return bytes;
}

Test(gguf_file, a_good_file_is_listed)
{
    const struct bytes bytes = good_file();
    struct error error = {""};
    struct gguf_file file;
    cr_assert_eq(gguf_parse(bytes.data, bytes.n, "x.gguf", &file, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert(file.n_keys == 4 && file.n_tensors == 2 && file.n_parts == 1);
    const struct gguf_tensor *t1 = gguf_find_tensor(&file, "t1");
    cr_assert(t1 && t1->type == GGUF_TYPE_Q8_0 && t1->bytes == 68 && t1->dims[0] == 64);
    cr_assert_null(gguf_find_tensor(&file, "t2"));
    const struct gguf_key *key;
    cr_assert_eq(gguf_array(&file, "words", &key, &error), STATUS_OK);
    const uint8_t *at = key->at;
    cr_assert(gguf_text_is(gguf_next_text(&at), "a") && gguf_text_is(gguf_next_text(&at), "") &&
              gguf_text_is(gguf_next_text(&at), "ccc") && at == key->end);
    cr_assert_eq(gguf_array(&file, "numbers", &key, &error), STATUS_OK);
    cr_assert(gguf_number_at(key, 0) == -2 && gguf_number_at(key, 1) == 7);
    uint64_t alignment = 0;
    cr_assert_eq(gguf_u64(&file, "general.alignment", 33, 64, &alignment, &error), STATUS_CORRUPT);
    cr_assert_str_eq(error.text, "key general.alignment is 32, expected a whole number 33 .. 64");
    cr_assert_eq(gguf_u64(&file, "words", 0, 9, &alignment, &error), STATUS_CORRUPT);
    cr_assert_str_eq(error.text, "key words is not a number");
    gguf_close(&file);
}

#define EXPECT(expected, words)                                                                    \
    do {                                                                                           \
        struct error error_;                                                                       \
        enum status status_ = parse(&bytes, bytes.n, &error_);                                     \
        cr_expect_eq(status_, expected, "line %d: %s (%s)", __LINE__, status_name(status_),        \
                     error_.text);                                                                 \
        cr_expect(strstr(error_.text, words), "line %d: no \"%s\" in \"%s\"", __LINE__, words,     \
                  error_.text);                                                                    \
        bytes.n = 0;                                                                               \
    } while (0)

Test(gguf_file, heads_that_lie)
{
    struct bytes bytes = {.n = 0};
    EXPECT(STATUS_CORRUPT, "x.gguf does not begin with GGUF");
    put(&bytes, 0x46554747, 4);
    EXPECT(STATUS_CORRUPT, "ends inside of its head");
    put_head(&bytes, 1, 0, 0);
    EXPECT(STATUS_UNSUPPORTED, "version 1 of GGUF, supported are 2 and 3");
    put_head(&bytes, 3u << 24, 0, 0);
    EXPECT(STATUS_UNSUPPORTED, "big-endian");
    put_head(&bytes, 3, 1ull << 60, 0);
    EXPECT(STATUS_CORRUPT, "1152921504606846976 tensors, at most");
    put_head(&bytes, 3, 0, 1ull << 63);
    EXPECT(STATUS_CORRUPT, "9223372036854775808 keys");
    put_head(&bytes, 3, 0, 3);
    EXPECT(STATUS_CORRUPT, "ends inside of the name of a key");
}

Test(gguf_file, keys_that_lie)
{
    struct bytes bytes = {.n = 0};
    put_head(&bytes, 3, 0, 1);
    put(&bytes, 1ull << 63, 8);
    EXPECT(STATUS_CORRUPT, "ends inside of the name of a key");
    put_head(&bytes, 3, 0, 1);
    put(&bytes, UINT64_MAX - 7, 8);
    fill_up(&bytes, 64);
    EXPECT(STATUS_CORRUPT, "ends inside of the name of a key");
    put_head(&bytes, 3, 0, 1);
    put_u32(&bytes, "", 3);
    EXPECT(STATUS_CORRUPT, "the name of a key has 0 bytes, expected 1 .. 255");
    put_head(&bytes, 3, 0, 1);
    put_text(&bytes, "k");
    put(&bytes, 77, 4);
    fill_up(&bytes, 64);
    EXPECT(STATUS_CORRUPT, "key k has kind 77, expected 0 .. 12");
    put_head(&bytes, 3, 0, 1);
    put_text(&bytes, "k");
    put(&bytes, GGUF_TEXT, 4);
    put(&bytes, 1ull << 62, 8);
    EXPECT(STATUS_CORRUPT, "ends inside of the value of a key");
    put_head(&bytes, 3, 0, 1);
    put_text(&bytes, "k");
    put(&bytes, GGUF_ARRAY, 4);
    put(&bytes, GGUF_TEXT, 4);
    put(&bytes, 1ull << 61, 8);
    EXPECT(STATUS_CORRUPT, "ends inside of the value of a key");
    put_head(&bytes, 3, 0, 1);
    put_text(&bytes, "k");
    put(&bytes, GGUF_ARRAY, 4);
    put(&bytes, GGUF_U64, 4);
    put(&bytes, 1ull << 61, 8);
    fill_up(&bytes, 64);
    EXPECT(STATUS_CORRUPT, "ends inside of the value of a key");
    put_head(&bytes, 3, 0, 1);
    put_text(&bytes, "k");
    put(&bytes, GGUF_ARRAY, 4);
    put(&bytes, GGUF_ARRAY, 4);
    put(&bytes, 1, 8);
    EXPECT(STATUS_UNSUPPORTED, "key k is an array of arrays");
    put_head(&bytes, 3, 0, 2);
    put_u32(&bytes, "k", 1);
    put_u32(&bytes, "k", 1);
    EXPECT(STATUS_CORRUPT, "has key k twice");
    static const uint32_t ALIGNMENTS[] = {0, 3, 4, 48, 1u << 21};
    for (size_t i = 0; i < sizeof ALIGNMENTS / sizeof *ALIGNMENTS; i++) {
        put_head(&bytes, 3, 0, 1);
        put_u32(&bytes, "general.alignment", ALIGNMENTS[i]);
        EXPECT(STATUS_CORRUPT, "general.alignment is ");
    }
    put_head(&bytes, 3, 0, 1);
    put_text(&bytes, "general.alignment");
    put(&bytes, GGUF_TEXT, 4);
    put_text(&bytes, "x");
    EXPECT(STATUS_CORRUPT, "general.alignment is not a number");
}

static void one_tensor(struct bytes *bytes, uint32_t n_dims, const uint64_t *dims, uint32_t type,
                       uint64_t offset)
{
    put_head(bytes, 2, 1, 0);
    put_tensor(bytes, "t", n_dims, dims, type, offset);
    fill_up(bytes, 256);
}

#define DIMS(...)                                                                                  \
    (const uint64_t[])                                                                             \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

Test(gguf_file, tensors_that_lie)
{
    struct bytes bytes = {.n = 0};
    one_tensor(&bytes, 0, NULL, 0, 0);
    EXPECT(STATUS_CORRUPT, "tensor t has 0 dimensions, expected 1 .. 4");
    one_tensor(&bytes, 5, DIMS(1, 1, 1, 1, 1), 0, 0);
    EXPECT(STATUS_CORRUPT, "tensor t has 5 dimensions");
    one_tensor(&bytes, 1, DIMS(0), 0, 0);
    EXPECT(STATUS_CORRUPT, "rows of 0 elements");
    one_tensor(&bytes, 2, DIMS(4, 0), 0, 0);
    EXPECT(STATUS_CORRUPT, "the dimensions of tensor t are 0 or too large");
    one_tensor(&bytes, 3, DIMS(1ull << 32, 1ull << 32, 1ull << 32), 0, 0);
    EXPECT(STATUS_CORRUPT, "0 or too large");
    one_tensor(&bytes, 1, DIMS(1ull << 63), 0, 0);
    EXPECT(STATUS_CORRUPT, "0 or too large");
    one_tensor(&bytes, 1, DIMS(33), 8, 0);
    EXPECT(STATUS_CORRUPT, "rows of 33 elements, no whole number of the blocks of 32 that Q8_0");
    one_tensor(&bytes, 1, DIMS(128), 12, 0);
    EXPECT(STATUS_CORRUPT, "blocks of 256 that Q4_K");
    one_tensor(&bytes, 1, DIMS(256), 20, 0);
    EXPECT(STATUS_UNSUPPORTED, "tensor t has type IQ4_NL, which is not read");
    one_tensor(&bytes, 1, DIMS(32), 999, 0);
    EXPECT(STATUS_UNSUPPORTED, "tensor t has type 999, which is not known");
    one_tensor(&bytes, 1, DIMS(32), 0, 16);
    EXPECT(STATUS_CORRUPT, "tensor t begins at 16, no multiple of the alignment 32");
    one_tensor(&bytes, 1, DIMS(32), 0, 1ull << 63);
    EXPECT(STATUS_CORRUPT, "ends behind the file");
    one_tensor(&bytes, 1, DIMS(96), 0, 0);
    EXPECT(STATUS_CORRUPT, "tensor t of 384 bytes at 0 ends behind the file");
    put_head(&bytes, 3, 2, 0);
    put_tensor(&bytes, "a", 1, DIMS(32), 0, 0);
    put_tensor(&bytes, "b", 1, DIMS(32), 0, 96);
    fill_up(&bytes, 256);
    EXPECT(STATUS_CORRUPT, "tensors a and b overlap");
    put_head(&bytes, 3, 2, 0);
    put_tensor(&bytes, "a", 1, DIMS(8), 0, 0);
    put_tensor(&bytes, "a", 1, DIMS(8), 0, 32);
    fill_up(&bytes, 256);
    EXPECT(STATUS_CORRUPT, "has tensor a twice");
}

Test(gguf_file, every_cut_and_changed_byte_is_survived)
{
    const struct bytes good = good_file();
    struct error error;
    struct random random;
    random_init(&random, 1);
    for (size_t n = 0; n < good.n; n++)
        cr_assert_neq(parse(&good, n, &error), STATUS_OK, "cut at %zu", n);
    for (uint32_t i = 0; i < 20000; i++) {
        struct bytes bytes = good;
        for (uint64_t changes = 1 + random_below(&random, 5); changes > 0; changes--)
            bytes.data[random_below(&random, good.n - 580)] = (uint8_t)random_below(&random, 256);
        if (parse(&bytes, bytes.n, &error) != STATUS_OK)
            cr_assert(error.text[0]);
    }
}
