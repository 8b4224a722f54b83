/*
 * quantization - how the matrices of a checkpoint are stored, as quantization_config of config.json says it.
 *
 * The shapes of the tensors say the rest (weights/quantized_files.h). A matrix that was left out is stored as usual.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/files/json_fields.h"

enum quantization_method {
    QUANTIZATION_NONE,
    QUANTIZATION_MXFP4,      /* experts of gpt-oss */
    QUANTIZATION_FP8,        /* E4M3 with a scale for a block, a row or a matrix */
    QUANTIZATION_AWQ,        /* 4 bits */
    QUANTIZATION_GPTQ,       /* 4 or 8 bits */
    QUANTIZATION_COMPRESSED, /* compressed-tensors: 4 or 8 bits, or E4M3 */
};

/* What the scales of K and V in the files are for: kv_cache_scheme. Where it is absent, they are for E4M3. */
enum kv_scheme { KV_SCHEME_NONE, KV_SCHEME_E4M3, KV_SCHEME_INT8, KV_SCHEME_OTHER };

struct quantization {
    enum quantization_method method;
    uint32_t bits;                      /* AWQ, GPTQ */
    uint32_t block_rows, block_columns; /* FP8; 0: there are no blocks */
    bool zero_is_less_one;              /* GPTQ's first format */
    enum kv_scheme kv_scheme;
};

/* fields: of the whole file. UNSUPPORTED: the sentence names the method or key, and what would work. CORRUPT. */
MUST_CHECK enum status quantization_read(const struct json_fields *fields,
                                         struct quantization *quantization_out);
