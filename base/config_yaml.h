/*
 * config_yaml - a flat YAML mapping, one entry at a time.
 *
 *     key: scalar        plain or quoted; nothing nested, no anchors, one document
 *
 * Bounds: CONFIG_FILE_BYTES_MAX.
 * Thread: any; nothing is kept after the call.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* key and value are borrowed for the call; a failure ends the reading and is its result. */
typedef enum status (*config_yaml_entry)(void *arg, const char *key, const char *value,
                                         uint32_t line, struct error *error);

/* NOT_FOUND, IO_FAILED: the file. CORRUPT: no flat mapping; the sentence starts with FILE:LINE.
 * NO_MEMORY. */
MUST_CHECK enum status config_yaml_read(const char *path, config_yaml_entry entry, void *arg,
                                        struct error *error);
