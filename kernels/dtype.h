/*
 * dtype - element types of weights and of the KV cache, and their scalar conversions.
 *
 * Widening is exact. Narrowing rounds to nearest even; NaN stays NaN, overflow becomes infinity.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F16 };

size_t dtype_bytes(enum dtype dtype);
const char *dtype_name(enum dtype dtype); /* "F32", as safetensors spells it */

float bf16_to_f32(uint16_t half);
uint16_t bf16_from_f32(float value);
float f16_to_f32(uint16_t half);
uint16_t f16_from_f32(float value);

/* Element index of an array; the array may have any alignment. */
float dtype_load(enum dtype dtype, const void *array, size_t index);
void dtype_store(enum dtype dtype, void *array, size_t index, float value);
