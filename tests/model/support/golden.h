/* golden - reads the JSON and float32 files that the scripts in tests/golden and model/demo made. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

json_t *golden_json(const char *folder, const char *file);
/* n floats, freed by the caller; asserts that the file holds exactly as many. */
float *golden_floats(const char *folder, const char *file, size_t n);
/* A list of token ids, freed by the caller. */
uint32_t *golden_ids(const json_t *list, uint32_t *n_out);

/* The largest |a - b|; NaN counts as infinite. */
double golden_error(const float *a, const float *b, size_t n);
