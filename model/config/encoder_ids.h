/*
 * encoder_ids - the tokens of encoder_shape, as config.json and generation_config.json give them.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"
#include "model/files/json_fields.h"

/* The id of a key: a number, or a list of one. Absent and null: *id stays as it is. CORRUPT, UNSUPPORTED with a sentence. */
MUST_CHECK enum status encoder_read_id(const struct json_fields *fields,
                                       const struct model_config *config, const char *key,
                                       uint32_t *id);
/* The ids of encoder_shape. Nothing, if the model has no encoder. CORRUPT, UNSUPPORTED with a sentence. */
MUST_CHECK enum status encoder_read_ids(const struct json_fields *fields,
                                        struct model_config *config);
/* The same of generation_config.json: what it does not force, nothing forces. */
MUST_CHECK enum status encoder_read_generation(const struct json_fields *fields,
                                               struct model_config *config);
