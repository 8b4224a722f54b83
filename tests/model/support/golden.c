#include "tests/model/support/golden.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

json_t *golden_json(const char *folder, const char *file)
{
    char path[512];
    json_error_t error;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    json_t *root = json_load_file(path, 0, &error);
    cr_assert(root, "%s: %s", path, error.text);
    return root;
}

float *golden_floats(const char *folder, const char *file, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    FILE *stream = fopen(path, "rb");
    cr_assert(stream, "%s", path);
    float *floats = malloc((n + 1) * sizeof *floats);
    cr_assert_eq(fread(floats, sizeof *floats, n + 1, stream), n, "%s", path);
    fclose(stream);
    return floats;
}

uint32_t *golden_ids(const json_t *list, uint32_t *n_out)
{
    size_t n = json_array_size(list);
    uint32_t *ids = calloc(n + 1, sizeof *ids);
    for (size_t i = 0; i < n; i++)
        ids[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    *n_out = (uint32_t)n;
    return ids;
}

double golden_error(const float *a, const float *b, size_t n)
{
    double largest = 0;
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)a[i] - (double)b[i]);
        if (!(error <= largest))
            largest = isnan(error) ? INFINITY : error;
    }
    return largest;
}
