/*
 * worker_report - what a worker says of itself to a router.
 *
 * Thread: any (plain data).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define ROUTER_ADDRESS_MAX 256u /* bytes of host:port, NUL included */

enum worker_role { WORKER_CONTEXT, WORKER_GENERATION };

struct worker_report {
    bool is_ready;    /* answers, has loaded, is not draining */
    bool is_repeated; /* only is_ready is news: the rest is what it said when it was asked last */
    uint32_t running, waiting;
    uint32_t n_blocks;
    uint32_t blocks_usable; /* free or cached */
    bool tells_room;
    uint32_t room;      /* requests that it would take now */
    uint32_t calls_max; /* of ours, at one time; 0: it does not say */
};
