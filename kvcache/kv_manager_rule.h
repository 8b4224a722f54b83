/*
 * kv_manager_rule - how many blocks a sequence holds between two steps, by its tokens.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "kvcache/cache_groups.h"

/* What a sequence computes next. */
enum kv_next { KV_NEXT_PROMPT, KV_NEXT_REPLY, KV_NEXT_NOTHING };

struct kv_manager_rule {
    uint32_t n_groups;
    uint32_t span_limits
        [CACHE_GROUPS_MAX]; /* a block for each span, up to so many; UINT32_MAX: no limit */
    uint32_t
        reply_spans; /* so many spans or those of the prompt, whatever is more; UINT32_MAX: no limit */
    uint32_t n_beside; /* blocks of a sequence that has any, beside those of its spans */
    uint32_t n_fixed;  /* so many blocks, whatever the tokens; 0: by the spans */
};
