#include "router/requests/generation_defaults.h"

#include "base/json_text.h"
#include "base/regular_file.h"
#include "sampling_params/sampling_params.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define FILE_BYTES_MAX (1u << 20)

struct source {
    const json_t *root;
    const char *file; /* for sentences */
    struct error *error;
};

static enum status read_number(const struct source *source, const char *key, double *value_inout)
{
    const json_t *value = json_object_get(source->root, key);
    if (!value || json_is_null(value))
        return STATUS_OK;
    if (!json_is_number(value))
        return error_set(source->error, STATUS_CORRUPT, "%s: %s is not a number", source->file,
                         key);
    *value_inout = json_number_value(value);
    return STATUS_OK;
}

static enum status read_top_k(const struct source *source, uint32_t *top_k_out)
{
    double top_k = 0;
    TRY(read_number(source, "top_k", &top_k));
    if (!(top_k >= 0 && top_k <= INT_MAX) || top_k != floor(top_k))
        return error_set(source->error, STATUS_INVALID_ARGUMENT,
                         "%s: top_k is %g; it must be a whole number, 0 .. %d", source->file, top_k,
                         INT_MAX);
    *top_k_out = (uint32_t)top_k;
    return STATUS_OK;
}

/* Bounds are those of a request's own sampling, which names its fields as the file does. */
static enum status check(const struct source *source, const struct generation_defaults *defaults)
{
    struct sampling_params params = SAMPLING_GREEDY;
    struct sampling_fault fault;
    params.temperature = defaults->temperature;
    params.top_p = defaults->top_p;
    params.min_p = defaults->min_p;
    params.repetition_penalty = defaults->repetition_penalty;
    if (!sampling_find_fault(&params, 0, &fault))
        return STATUS_OK;
    return error_set(source->error, STATUS_INVALID_ARGUMENT, "%s: %s is %g; it must be %s",
                     source->file, fault.field,
                     json_number_value(json_object_get(source->root, fault.field)), fault.wanted);
}

/* What asks for beams without drawing gets the greedy reply, which is the one of one beam. */
static bool is_greedy(const struct source *source, const json_t *do_sample)
{
    const json_t *beams = json_object_get(source->root, "num_beams");
    return json_is_false(do_sample) || (!json_is_true(do_sample) && json_number_value(beams) > 1);
}

static enum status read_all(const struct source *source, struct generation_defaults *defaults_out)
{
    double temperature = 1, top_p = 1, min_p = 0, repetition_penalty = 1;
    uint32_t top_k;
    if (!json_is_object(source->root))
        return error_set(source->error, STATUS_CORRUPT, "%s is no object", source->file);
    TRY(read_number(source, "temperature", &temperature));
    TRY(read_top_k(source, &top_k));
    TRY(read_number(source, "top_p", &top_p));
    TRY(read_number(source, "min_p", &min_p));
    TRY(read_number(source, "repetition_penalty", &repetition_penalty));
    const json_t *do_sample = json_object_get(source->root, "do_sample");
    if (do_sample && !json_is_null(do_sample) && !json_is_boolean(do_sample))
        return error_set(source->error, STATUS_CORRUPT, "%s: do_sample is not true or false",
                         source->file);
    struct generation_defaults defaults = {
        .temperature = (float)temperature,
        .top_k = top_k,
        .top_p = (float)top_p,
        .min_p = (float)min_p,
        .repetition_penalty = (float)repetition_penalty,
    };
    TRY(check(source, &defaults));
    if (is_greedy(source, do_sample))
        defaults.temperature = 0;
    *defaults_out = defaults;
    return STATUS_OK;
}

static enum status read_file(const char *folder, const char *file,
                             struct generation_defaults *defaults_out, struct error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    json_t *root = NULL;
    TRY(regular_file_read_in(folder, file, FILE_BYTES_MAX, &text, &bytes, error));
    enum status status = json_text_parse(text, bytes, file, 0, &root, error);
    free(text);
    TRY(status);
    struct source source = {root, file, error};
    status = read_all(&source, defaults_out);
    json_decref(root);
    return status;
}

enum status generation_defaults_read(const char *folder, struct generation_defaults *defaults_out,
                                     struct error *error)
{
    struct generation_defaults defaults = {.temperature = 1, .top_p = 1, .repetition_penalty = 1};
    enum status status = read_file(folder, "generation_config.json", &defaults, error);
    if (status == STATUS_NOT_FOUND)
        status = read_file(folder, "config.json", &defaults, error);
    if (status == STATUS_NOT_FOUND) { /* neither need be there */
        error_write(error, "%s", "");
        status = STATUS_OK;
    }
    if (status == STATUS_OK)
        *defaults_out = defaults;
    return status;
}
