/*
 * folder_report - reports which keys of a model folder's configuration are used, ignored, not done, refused
 * and unknown.
 *
 *     {"files": {"config.json": {"used":    {KEY: VALUE, ...},
 *                                "ignored": {WHY: [KEY, ...], ...},
 *                                "not_done": {KEY: VALUE, ...},
 *                                "refused": {KEY: VALUE, ...},
 *                                "unknown": [KEY, ...]},
 *                ...                          null: the file is not there
 *                NAME: "why it cannot be read"},
 *      "other_files": [NAME, ...]}            in the folder, but not read
 *
 * Files are config.json, generation_config.json, tokenizer_config.json, special_tokens_map.json.
 *
 * It checks keys (config_keys.h), but not the values of used keys: loading a model does that.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdio.h>

/* The caller owns *report_out. NOT_FOUND, IO_FAILED: the folder cannot be listed. NO_MEMORY. */
MUST_CHECK enum status folder_report_make(const char *folder, json_t **report_out,
                                          struct error *error);

/* For people: lines of at most about 100 columns. */
void folder_report_print(const json_t *report, FILE *out);
