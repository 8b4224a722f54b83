/*
 * worker_report - the report of a worker to a router.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/adapter_id.h"

#include <stdbool.h>
#include <stdint.h>

#define ROUTER_ADDRESS_MAX 256u /* bytes of host:port, NUL included */

enum worker_role { WORKER_CONTEXT, WORKER_GENERATION };

struct worker_report {
    bool is_ready;    /* answers, has loaded, is not draining */
    bool is_repeated; /* only is_ready is new; the rest is from the last answer */
    uint32_t running, waiting;
    uint32_t n_blocks;
    uint32_t blocks_usable; /* free or cached */
    bool tells_room;
    uint32_t room;      /* requests that it would accept now */
    uint32_t calls_max; /* our calls at one time; 0: not reported */
    uint32_t n_adapters;
    uint64_t adapters[ADAPTERS_MAX]; /* adapter_id_key of those that it has */
};
