/*
 * json_fields - the members of a JSON object, read with type and bounds.
 *
 * A reader leaves *value_out as it is when the member is absent or null, so that the caller's
 * default stands; what must be there is checked by json_fields_require. Every sentence names file
 * and key.
 *
 * All functions fail with CORRUPT.
 * Thread: any, as long as one at a time reads a document.
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

/* Parses a whole text that is one object (base/json_text.h). The caller owns *root_out. */
MUST_CHECK enum status json_fields_parse(const char *text, size_t bytes, const char *file,
                                         json_t **root_out, struct error *error);

/* NULL when absent or null. */
const json_t *json_fields_get(const struct json_fields *fields, const char *key);
MUST_CHECK enum status json_fields_require(const struct json_fields *fields, const char *key);

/* A whole number, however it is written: 4096, 4096.0, 4.096e3. */
MUST_CHECK enum status json_fields_u32(const struct json_fields *fields, const char *key,
                                       uint32_t min, uint32_t max, uint32_t *value_out);
/* min and max belong to the range; a JSON integer will do. */
MUST_CHECK enum status json_fields_real(const struct json_fields *fields, const char *key,
                                        double min, double max, double *value_out);
MUST_CHECK enum status json_fields_bool(const struct json_fields *fields, const char *key,
                                        bool *value_out);
/* Borrowed from the object. */
MUST_CHECK enum status json_fields_string(const struct json_fields *fields, const char *key,
                                          const char **value_out);
/* Succeeds with *value_out NULL when absent or null. */
MUST_CHECK enum status json_fields_object(const struct json_fields *fields, const char *key,
                                          const json_t **value_out);
