/*
 * weight_format - the formats in which a model's matrices are kept in memory.
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdbool.h>

/* AUTO: as in the file. The others are rounded when the model is loaded (quantized_weights.h): to INT8 with one scale for each row,
 * or for each group of 32 elements of a row; to the blocks Q8_0, or Q4_1 with the head in Q8_0. */
enum weight_format { WEIGHTS_AUTO, WEIGHTS_INT8, WEIGHTS_INT8_GROUP32, WEIGHTS_Q8, WEIGHTS_Q4 };

#define WEIGHT_FORMAT_WORDS "auto|int8|int8-group32|q8|q4"

/* Blocks, which the products of GGUF files compute with. */
static inline bool weight_format_is_blocks(enum weight_format format)
{
    return format == WEIGHTS_Q8 || format == WEIGHTS_Q4;
}

static inline bool weight_format_is_int8(enum weight_format format)
{
    return format == WEIGHTS_INT8 || format == WEIGHTS_INT8_GROUP32;
}

/* The configuration row that chooses the format (base/config/config.h). */
#define WEIGHTS_CONFIG_ROW(X)                                                                      \
    X(weights, WORD(enum weight_format, WEIGHT_FORMAT_WORDS), "auto", "",                          \
      "auto: as stored in the file; else matrices are rounded when loaded: int8 to 8 bits with "   \
      "one scale per row, int8-group32 with one per 32 weights, q8 and q4 to the blocks Q8_0 and " \
      "Q4_1 of GGUF files, 8.5 and 5 bits a weight, on CPUs alone; what has no more bits stays")
