#include "router/generation_defaults.h"

#include "base/json_text.h"
#include "base/regular_file.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define FILE_BYTES_MAX (1u << 20)

/* Bounds are those of a request's own sampling (sampling/sampling.c). */
static enum status read_number(const json_t *root, const char *key, double min, double max,
                               double *value_inout, struct error *error)
{
    const json_t *value = json_object_get(root, key);
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_number(value))
        return error_set(error, STATUS_CORRUPT, "generation_config.json: %s is no number", key);
    double number = json_number_value(value);
    if (!(number >= min && number <= max))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "generation_config.json: %s is %g; it must be %g .. %g", key, number, min,
                         max);
    *value_inout = number;
    return STATUS_OK;
}

static enum status read_top_k(const json_t *root, double *top_k_inout, struct error *error)
{
    TRY(read_number(root, "top_k", 0, INT_MAX, top_k_inout, error));
    if (*top_k_inout == floor(*top_k_inout))
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "generation_config.json: top_k is %g; it must be a whole number",
                     *top_k_inout);
}

static enum status read_all(const json_t *root, struct generation_defaults *defaults_out,
                            struct error *error)
{
    double temperature = 1;
    double top_k = 0;
    double top_p = 1;
    double repetition_penalty = 1;
    if (!json_is_object(root))
        return error_set(error, STATUS_CORRUPT, "generation_config.json is no object");
    TRY(read_number(root, "temperature", 0, 100, &temperature, error));
    TRY(read_top_k(root, &top_k, error));
    TRY(read_number(root, "top_p", 1e-6, 1, &top_p, error));
    TRY(read_number(root, "repetition_penalty", 1e-6, 100, &repetition_penalty, error));
    if (json_is_false(json_object_get(root, "do_sample")))
        temperature = 0;
    *defaults_out = (struct generation_defaults){
        .temperature = (float)temperature,
        .top_k = (uint32_t)top_k,
        .top_p = (float)top_p,
        .repetition_penalty = (float)repetition_penalty,
    };
    return STATUS_OK;
}

static enum status parse(const char *text, size_t bytes, struct generation_defaults *defaults_out,
                         struct error *error)
{
    json_t *root;
    TRY(json_text_parse(text, bytes, "generation_config.json", 0, &root, error));
    enum status status = read_all(root, defaults_out, error);
    json_decref(root);
    return status;
}

enum status generation_defaults_read(const char *folder, struct generation_defaults *defaults_out,
                                     struct error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    *defaults_out = (struct generation_defaults){
        .temperature = 1, .top_p = 1, .repetition_penalty = 1};
    enum status status = regular_file_read_in(folder, "generation_config.json", FILE_BYTES_MAX,
                                              &text, &bytes, error);
    if (status == STATUS_NOT_FOUND) { /* it need not be there */
        error_write(error, "%s", "");
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        status = parse(text, bytes, defaults_out, error);
    free(text);
    return status;
}
