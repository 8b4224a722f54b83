/*
 * chat_limits - how large a request of chat may be: rows of the configuration (text/text_config.h), by whose names errors tell how
 * to raise them. How deep its JSON is nested is no row: the renderer reads 127 levels of the whole.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define CHAT_DEPTH_MAX 100u

struct chat_limits {
    size_t bytes_max; /* of the whole as JSON */
    uint32_t messages_max;
    uint32_t parts_max; /* of one message */
    uint32_t calls_max; /* of one message */
    uint32_t tools_max;
    uint32_t documents_max;
    size_t tool_bytes_max; /* of all tools */
    size_t argument_bytes_max;
};
