#include "api/openai/openai_beams.h"

#include "sampling_params/beam_params.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LENGTH_PENALTY_MAX 10

static void read_early_stopping(const struct json_fields *fields,
                                Kvferry__V1__SamplingParams *sampling)
{
    const json_t *value = json_field(fields, "early_stopping");
    const char *word = json_string_value(value);
    if (!value)
        return;
    if (word && strcmp(word, "never") == 0)
        sampling->early_stopping = KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_NEVER;
    else if (json_is_boolean(value))
        sampling->early_stopping = json_is_true(value)
                                       ? KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_TRUE
                                       : KVFERRY__V1__EARLY_STOPPING__EARLY_STOPPING_FALSE;
    else
        json_field_refuse_type(fields, "early_stopping", "true, false or \"never\"");
}

/* Whether so many beams go with what use_beam_search says. */
static void check_width(const struct json_fields *fields, json_int_t width, bool is_asked,
                        bool has_width)
{
    const json_t *asks = json_field(fields, "use_beam_search");
    if (json_is_false(asks) && width > 1)
        json_field_fail(fields, "invalid_value", "use_beam_search",
                        "is false, and beam_width is %" JSON_INTEGER_FORMAT ", which asks for one",
                        width);
    if (is_asked && has_width && width < 2)
        json_field_fail(fields, "invalid_value", "beam_width",
                        "is %" JSON_INTEGER_FORMAT "; it must be 2 to %u with use_beam_search",
                        width, BEAMS_MAX);
    if (is_asked && !has_width && width < 2)
        json_field_fail(
            fields, "invalid_value", "n",
            "is 1; it must be 2 to %u with use_beam_search, which searches with n beams; "
            "beam_width sets another number of them",
            BEAMS_MAX);
}

void openai_beams_read(const struct json_fields *fields, Kvferry__V1__SamplingParams *sampling)
{
    bool is_asked = false, has_width, is_there;
    json_int_t width = 0;
    double penalty;
    json_field_bool(fields, "use_beam_search", &is_asked);
    json_field_integer(fields, "beam_width", 0, BEAMS_MAX, &has_width, &width);
    if (json_field_number(fields, "length_penalty", -LENGTH_PENALTY_MAX, LENGTH_PENALTY_MAX,
                          &is_there, &penalty) &&
        is_there) {
        sampling->length_penalty_presence_case =
            KVFERRY__V1__SAMPLING_PARAMS__LENGTH_PENALTY_PRESENCE_LENGTH_PENALTY;
        sampling->length_penalty = (float)penalty;
    }
    read_early_stopping(fields, sampling);
    if (is_asked && !has_width)
        width = sampling->n;
    check_width(fields, width, is_asked, has_width);
    sampling->beam_width = (uint32_t)width;
}

void openai_beams_rename(const json_t *body, struct openai_error *error)
{
    static const char FROM[] = " with beam_width", TO[] = " with use_beam_search";
    const size_t n = strlen(error->message);
    if (n < sizeof FROM - 1 || n - (sizeof FROM - 1) + sizeof TO > sizeof error->message ||
        !json_is_true(json_object_get(body, "use_beam_search")))
        return;
    char *tail = error->message + n - (sizeof FROM - 1);
    if (strcmp(tail, FROM) == 0)
        memcpy(tail, TO, sizeof TO);
}
