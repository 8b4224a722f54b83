/*
 * config_keys - which keys of config.json matter.
 *
 *     read      the parser's own: model_config.c, rope_parameters.c
 *     harmless  change nothing that is computed here
 *     refused   change the result in a way that is not computed here, unless neutral: absent, null,
 *               false, empty, or the value that stands in the table
 *     unknown   everything else: one warning names them all
 *
 * Thread: any.
 */
#pragma once

#include "model/json_fields.h"

/* UNSUPPORTED names the first refused key and its value. */
MUST_CHECK enum status config_keys_check(const struct json_fields *fields);
