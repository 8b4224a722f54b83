/*
 * template_limits - what a process that renders chat templates may use.
 *
 * Thread: any; a plain struct, and between processes of the same program a message.
 */
#pragma once

#include <stdint.h>

struct template_limits {
    uint64_t memory_bytes; /* beyond what it has at its start */
    uint64_t cpu_ms;       /* of one rendering */
    uint64_t fuel;         /* steps of one rendering */
    uint32_t request_bytes_max;
    uint32_t prompt_bytes_max;
};
