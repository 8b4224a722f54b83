/*
 * weight_format - what matrices are computed from.
 *
 * Thread: any (plain data).
 */
#pragma once

/* What the file holds, or INT8 made of it when it is loaded, with a scale a row or a group of 32 of it
 * (quantized_weights.h says which). */
enum weight_format { WEIGHTS_AUTO, WEIGHTS_INT8, WEIGHTS_INT8_GROUP32 };

/* The row that chooses one, for a process's table (base/config/config.h). */
#define WEIGHTS_CONFIG_ROW(X)                                                                      \
    X(weights, WORD(enum weight_format, "auto|int8|int8-group32"), "auto", "",                     \
      "auto: as stored in the file; else matrices are rounded to 8 bits when loaded, with one "    \
      "scale per row or per 32 weights")
