/*
 * json_fields - reads the members of a JSON object and checks type and bounds.
 *
 * If a member is absent or null, *value_out stays as it is: the caller sets the default before.
 * json_fields_require checks that a member is there. Every error sentence names file and key.
 *
 * All functions fail with CORRUPT, json_fields_only also with UNSUPPORTED.
 * Thread: any, but only one at a time for one document.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_fields {
    const json_t *object; /* borrowed */
    const char *file;     /* "config.json", for the sentences */
    struct error *error;
};

/* Parses a text that is one JSON object (base/json_text.h). The caller owns *root_out. */
MUST_CHECK enum status json_fields_parse(const char *text, size_t bytes, const char *file,
                                         json_t **root_out, struct error *error);

/* NULL when absent or null. */
const json_t *json_fields_get(const struct json_fields *fields, const char *key);
MUST_CHECK enum status json_fields_require(const struct json_fields *fields, const char *key);

/* Whether value is a whole number from 0 to max, however it is written: of a file with a number over 64 bits all are reals. NULL is none. */
bool json_fields_whole(const json_t *value, uint32_t max, uint32_t *number_out);
/* Such a number of a key. */
MUST_CHECK enum status json_fields_u32(const struct json_fields *fields, const char *key,
                                       uint32_t min, uint32_t max, uint32_t *value_out);
/* min and max belong to the range. A JSON integer is accepted, too. */
MUST_CHECK enum status json_fields_real(const struct json_fields *fields, const char *key,
                                        double min, double max, double *value_out);
MUST_CHECK enum status json_fields_bool(const struct json_fields *fields, const char *key,
                                        bool *value_out);
/* For a switch that is computed in one way alone. UNSUPPORTED: it has the other value. */
MUST_CHECK enum status json_fields_only(const struct json_fields *fields, const char *key,
                                        bool expected);
/* Borrowed from the object. */
MUST_CHECK enum status json_fields_string(const struct json_fields *fields, const char *key,
                                          const char **value_out);
/* Succeeds with *value_out NULL when absent or null. */
MUST_CHECK enum status json_fields_object(const struct json_fields *fields, const char *key,
                                          const json_t **value_out);
