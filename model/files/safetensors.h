/*
 * safetensors - lists the tensors of one file without copying them.
 *
 *     0        u64 little-endian   n, bytes of the header: at most SAFETENSORS_HEADER_BYTES_MAX
 *     8        n bytes             JSON object {"name": {"dtype", "shape", "data_offsets": [b, e]}}
 *                                  and optionally "__metadata__": {string: string}
 *     8 + n    the data            tensors without gap or overlap from byte 0 to the end
 *
 * A file that breaks these rules is refused: duplicate names, a shape that does not match the number of
 * bytes, offsets outside the data, overlaps, gaps, bytes after the last tensor. Data has any alignment.
 *
 * Thread: immutable after parse. Tensors borrow the file's bytes; names are the table's own.
 */
#pragma once

#include "base/status.h"
#include "kernels/dtype.h"

#include <stddef.h>
#include <stdint.h>

#define SAFETENSORS_HEADER_BYTES_MAX (16u << 20)
#define TENSORS_MAX                  100000u
#define TENSOR_DIMS_MAX              8u

/*    name  bytes of an element */
#define SAFETENSORS_DTYPES(X)                                                                      \
    X(BOOL, 1)                                                                                     \
    X(U8, 1)                                                                                       \
    X(I8, 1)                                                                                       \
    X(F8_E4M3, 1)                                                                                  \
    X(F8_E5M2, 1)                                                                                  \
    X(U16, 2)                                                                                      \
    X(I16, 2)                                                                                      \
    X(F16, 2)                                                                                      \
    X(BF16, 2)                                                                                     \
    X(U32, 4)                                                                                      \
    X(I32, 4)                                                                                      \
    X(F32, 4)                                                                                      \
    X(U64, 8)                                                                                      \
    X(I64, 8)                                                                                      \
    X(F64, 8)

enum safetensors_dtype {
#define X(name, bytes) SAFETENSORS_##name,
    SAFETENSORS_DTYPES(X)
#undef X
    /* Tensors of GGUF files are listed as those of safetensors files are: blocks of kernels/dtype.h, from DTYPE_Q8_0 on. */
    SAFETENSORS_BLOCKS,
};

static inline bool safetensors_is_blocks(enum safetensors_dtype dtype)
{
    return dtype >= SAFETENSORS_BLOCKS;
}

static inline enum dtype safetensors_block_dtype(enum safetensors_dtype dtype)
{
    return (enum dtype)(DTYPE_Q8_0 + (dtype - SAFETENSORS_BLOCKS));
}

static inline enum safetensors_dtype safetensors_of_blocks(enum dtype dtype)
{
    return (enum safetensors_dtype)(SAFETENSORS_BLOCKS + (dtype - DTYPE_Q8_0));
}

struct safetensor {
    char *name;
    enum safetensors_dtype dtype;
    uint32_t n_dims;
    uint64_t shape[TENSOR_DIMS_MAX];
    const uint8_t *data;
    uint64_t bytes;
};

struct safetensors {
    uint32_t n_tensors;
    struct safetensor *tensors; /* [n_tensors] in the order of their data */
};

const char *safetensors_dtype_name(enum safetensors_dtype dtype);

/* file_name is for the sentences. CORRUPT: malformed. UNSUPPORTED: a dtype that is not in the
 * table. NO_MEMORY. */
MUST_CHECK enum status safetensors_parse(const void *file, size_t bytes, const char *file_name,
                                         struct safetensors *safetensors_out, struct error *error);
void safetensors_finish(struct safetensors *safetensors); /* a zeroed one is fine */
