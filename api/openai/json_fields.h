/*
 * json_fields - typed members of a JSON object, with an error that names the member and what it is.
 *
 * A member that is null counts as absent. Functions return whether the member was right or absent; on false the error is set, and
 * those that follow do nothing: a caller looks once, at the end.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/openai/openai_error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct json_fields {
    const json_t *object;
    const char *path;           /* before the names in errors: "messages[3]."; "": none */
    struct openai_error *error; /* code 0: none yet */
};

/* The member; NULL: absent, or null. */
const json_t *json_field(const struct json_fields *fields, const char *name);
/* Fails for a member of another type than that. */
bool json_field_refuse_type(const struct json_fields *fields, const char *name, const char *wanted);

/* Fails for an element of the array that the member is. */
bool json_field_refuse_element(const struct json_fields *fields, const char *name, size_t index,
                               const char *wanted);
/* An array of so many elements at most; these are "texts". NULL: absent, or the error is set. */
const json_t *json_field_list(const struct json_fields *fields, const char *name, size_t n_max,
                              const char *elements);

/* *has_out: it is there. */
bool json_field_number(const struct json_fields *fields, const char *name, double min, double max,
                       bool *has_out, double *out);
bool json_field_integer(const struct json_fields *fields, const char *name, json_int_t min,
                        json_int_t max, bool *has_out, json_int_t *out);
/* Absent: *out stays as it is. */
bool json_field_bool(const struct json_fields *fields, const char *name, bool *out);
/* Borrowed; absent: NULL. One that holds U+0000 is refused: as C has it, it would be another text. */
bool json_field_string(const struct json_fields *fields, const char *name, const char **out);
/* Whether value may be a token id. */
bool json_is_id(const json_t *value);
/* Whether value is a string without U+0000. */
bool json_is_text(const json_t *value);

/* Fails with "PATHNAME ...". */
bool json_field_fail(const struct json_fields *fields, const char *reason, const char *name,
                     const char *format, ...) __attribute__((format(printf, 4, 5)));
