/*
 * weight_format - the formats in which a model's matrices are kept in memory.
 *
 * Thread: any (plain data).
 */
#pragma once

/* AUTO: as in the file. The others are rounded to INT8 when the model is loaded (quantized_weights.h), with one scale
 * for each row, or for each group of 32 elements of a row. */
enum weight_format { WEIGHTS_AUTO, WEIGHTS_INT8, WEIGHTS_INT8_GROUP32 };

/* The configuration row that chooses the format (base/config/config.h). */
#define WEIGHTS_CONFIG_ROW(X)                                                                      \
    X(weights, WORD(enum weight_format, "auto|int8|int8-group32"), "auto", "",                     \
      "auto: as stored in the file; else matrices are rounded to 8 bits when loaded, with one "    \
      "scale per row or per 32 weights")
