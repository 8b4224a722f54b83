/*
 * config_file - reads config.json and generation_config.json into a description of a decoder.
 *
 * A key that would change the result and is not computed here is refused by name (config_keys.h); an
 * unknown one is logged once. An absent key has the default of Transformers, but sizes of tensors
 * must be present. Every number has a bound, so that no product of sizes overflows.
 *
 * Thread: any.
 */
#pragma once

#include "base/status.h"
#include "model/config/model_config.h"

#include <stddef.h>

#define CONFIG_JSON_BYTES_MAX (1u << 20)

/* Reads folder/config.json, and folder/generation_config.json if there is one. The error sentence names file
 * and key. is_quiet: keys that are not computed are not logged.
 * NOT_FOUND, IO_FAILED; CORRUPT: malformed, missing or contradictory; UNSUPPORTED: kvferry cannot run it. */
MUST_CHECK enum status model_config_read(const char *folder, bool is_quiet,
                                         struct model_config *config_out, struct error *error);

/* The same from memory; generation_json may be NULL. */
MUST_CHECK enum status model_config_parse(const char *config_json, size_t config_bytes,
                                          const char *generation_json, size_t generation_bytes,
                                          struct model_config *config_out, struct error *error);
