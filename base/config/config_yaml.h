/*
 * config_yaml - reads a flat YAML mapping, one entry at a time.
 *
 *     key: scalar        plain or quoted; nothing nested, no anchors, one document
 *     key: [a, b]        a list of scalars, also with one on each line; nothing nested
 *
 * Bounds: CONFIG_FILE_BYTES_MAX.
 * Thread: any; nothing is kept after the call.
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

/* What an item is: a scalar, or a part of a list, which is reported as LIST_BEGIN without a text and
 * then one LIST_TEXT for each text. */
enum config_yaml_kind { CONFIG_YAML_SCALAR, CONFIG_YAML_LIST_BEGIN, CONFIG_YAML_LIST_TEXT };

struct config_yaml_item {
    enum config_yaml_kind kind;
    const char *key;
    const char *text; /* NULL of LIST_BEGIN */
    uint32_t line;
};

/* item is borrowed during the call; a failure stops the reading and is its result. */
typedef enum status (*config_yaml_entry)(void *arg, const struct config_yaml_item *item,
                                         struct error *error);

/* NOT_FOUND, IO_FAILED: the file cannot be read. CORRUPT: no flat mapping; the sentence starts with
 * FILE:LINE. NO_MEMORY. */
MUST_CHECK enum status config_yaml_read(const char *path, config_yaml_entry entry, void *arg,
                                        struct error *error);
