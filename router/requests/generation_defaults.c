#include "router/requests/generation_defaults.h"

#include "base/json_text.h"
#include "base/regular_file.h"
#include "sampling_params/sampling_params.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>

#define FILE_BYTES_MAX (1u << 20)

const struct generation_defaults GENERATION_DEFAULTS = {
    .temperature = 1, .top_p = 1, .typical_p = 1, .repetition_penalty = 1};

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

static enum status read_real(const struct source *source, const char *key, float *value_inout)
{
    double value = (double)*value_inout;
    TRY(read_number(source, key, &value));
    *value_inout = (float)value;
    return STATUS_OK;
}

static enum status read_count(const struct source *source, const char *key, uint32_t most,
                              uint32_t *count_inout)
{
    double count = *count_inout;
    TRY(read_number(source, key, &count));
    if (!(count >= 0 && count <= most) || count != floor(count))
        return error_set(source->error, STATUS_INVALID_ARGUMENT,
                         "%s: %s is %g; it must be a whole number, 0 .. %" PRIu32, source->file,
                         key, count, most);
    *count_inout = (uint32_t)count;
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
    params.typical_p = defaults->typical_p;
    params.epsilon_cutoff = defaults->epsilon_cutoff;
    params.eta_cutoff = defaults->eta_cutoff;
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
    struct generation_defaults defaults = GENERATION_DEFAULTS;
    if (!json_is_object(source->root))
        return error_set(source->error, STATUS_CORRUPT, "%s is no object", source->file);
    TRY(read_real(source, "temperature", &defaults.temperature));
    TRY(read_count(source, "top_k", INT_MAX, &defaults.top_k));
    TRY(read_real(source, "top_p", &defaults.top_p));
    TRY(read_real(source, "min_p", &defaults.min_p));
    TRY(read_real(source, "typical_p", &defaults.typical_p));
    TRY(read_real(source, "epsilon_cutoff", &defaults.epsilon_cutoff));
    TRY(read_real(source, "eta_cutoff", &defaults.eta_cutoff));
    TRY(read_real(source, "repetition_penalty", &defaults.repetition_penalty));
    TRY(read_count(source, "no_repeat_ngram_size", NO_REPEAT_NGRAM_MAX,
                   &defaults.no_repeat_ngram_size));
    const json_t *do_sample = json_object_get(source->root, "do_sample");
    if (do_sample && !json_is_null(do_sample) && !json_is_boolean(do_sample))
        return error_set(source->error, STATUS_CORRUPT, "%s: do_sample is not true or false",
                         source->file);
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
    struct generation_defaults defaults = GENERATION_DEFAULTS;
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
