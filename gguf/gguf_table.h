/*
 * gguf_table - what a GGUF file holds (gguf_file.h), and how its keys are asked.
 *
 * Thread: any; a table is immutable once the file is open.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GGUF_KEYS_MAX    65536u
#define GGUF_TENSORS_MAX 100000u
#define GGUF_DIMS_MAX    4u
#define GGUF_PARTS_MAX   1024u
#define GGUF_NAME_MAX    255u

enum gguf_kind {
    GGUF_U8,
    GGUF_I8,
    GGUF_U16,
    GGUF_I16,
    GGUF_U32,
    GGUF_I32,
    GGUF_F32,
    GGUF_BOOL,
    GGUF_TEXT,
    GGUF_ARRAY,
    GGUF_U64,
    GGUF_I64,
    GGUF_F64,
};

struct gguf_text {
    const char *bytes; /* not terminated */
    size_t n;
};

struct gguf_key {
    struct gguf_text name;
    enum gguf_kind kind; /* of the value; of an array, of its elements */
    bool is_array;
    uint64_t n;              /* elements; 1 if it is no array */
    const uint8_t *at, *end; /* the elements */
};

/* The types of tensors: the number in the file, and the elements and bytes of a block. Types that are not in the table are
 * refused by name or number. */
#define GGUF_TYPES(X)                                                                              \
    X(F32, 0, 1, 4)                                                                                \
    X(F16, 1, 1, 2)                                                                                \
    X(Q4_0, 2, 32, 18)                                                                             \
    X(Q4_1, 3, 32, 20)                                                                             \
    X(Q5_0, 6, 32, 22)                                                                             \
    X(Q5_1, 7, 32, 24)                                                                             \
    X(Q8_0, 8, 32, 34)                                                                             \
    X(Q2_K, 10, 256, 84)                                                                           \
    X(Q3_K, 11, 256, 110)                                                                          \
    X(Q4_K, 12, 256, 144)                                                                          \
    X(Q5_K, 13, 256, 176)                                                                          \
    X(Q6_K, 14, 256, 210)                                                                          \
    X(BF16, 30, 1, 2)                                                                              \
    X(MXFP4, 39, 32, 17)

enum gguf_type {
#define X(name, number, elements, bytes) GGUF_TYPE_##name,
    GGUF_TYPES(X)
#undef X
};

struct gguf_tensor {
    struct gguf_text name;
    enum gguf_type type;
    uint32_t n_dims;
    uint64_t dims[GGUF_DIMS_MAX];
    const uint8_t *data;
    uint64_t bytes;
    uint32_t part;
};

struct gguf_part {
    char name[GGUF_NAME_MAX + 1]; /* of the file, without its folder */
    const uint8_t *data;
    size_t bytes;
};

struct gguf_file {
    uint32_t n_parts, n_keys, n_tensors;
    struct gguf_part *parts;
    struct gguf_key *keys;       /* by name */
    struct gguf_tensor *tensors; /* by name */
    bool is_mapped;
};

const struct gguf_tensor *gguf_find_tensor(const struct gguf_file *file, const char *name);

/* ---- values: absent keys leave *value_out as it is; CORRUPT names the key ---- */

const struct gguf_key *gguf_find(const struct gguf_file *file, const char *name);
/* CORRUPT: it is absent. */
MUST_CHECK enum status gguf_require(const struct gguf_file *file, const char *name,
                                    struct error *error);
/* Any kind of number that is whole and within min .. max. */
MUST_CHECK enum status gguf_u64(const struct gguf_file *file, const char *name, uint64_t min,
                                uint64_t max, uint64_t *value_out, struct error *error);
MUST_CHECK enum status gguf_real(const struct gguf_file *file, const char *name, double *value_out,
                                 struct error *error);
MUST_CHECK enum status gguf_bool(const struct gguf_file *file, const char *name, bool *value_out,
                                 struct error *error);
MUST_CHECK enum status gguf_text(const struct gguf_file *file, const char *name,
                                 struct gguf_text *value_out, struct error *error);
/* key NULL if it is absent. */
MUST_CHECK enum status gguf_array(const struct gguf_file *file, const char *name,
                                  const struct gguf_key **key_out, struct error *error);

/* The next text of an array of texts; *at begins as key->at. */
struct gguf_text gguf_next_text(const uint8_t **at);
/* Element i of an array of numbers. */
double gguf_number_at(const struct gguf_key *key, uint64_t i);

bool gguf_text_is(struct gguf_text text, const char *word);

/* ---- for gguf_file ---- */

/* Bytes of a kind of fixed size; 0: a text or an array. */
uint32_t gguf_kind_bytes(enum gguf_kind kind);
/* The order of keys and tensors, for qsort. */
int gguf_by_key(const void *left, const void *right);
int gguf_by_tensor(const void *left, const void *right);
/* n bytes, the lowest first. */
uint64_t gguf_little(const uint8_t *bytes, uint32_t n);
