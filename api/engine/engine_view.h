/*
 * engine_view - load and room of the service, for gateways that place requests by them.
 *
 * Thread: any.
 */
#pragma once

#include "api/engine/engine_place.h"

#include <stdbool.h>
#include <stdint.h>

struct engine_view {
    bool is_ready;             /* takes requests, and is not leaving */
    uint32_t running, waiting; /* choices of requests */
    uint32_t running_max;
    uint32_t block_tokens; /* 0: no worker has told yet, as all below */
    uint64_t blocks, blocks_used;
    char dtype[16];
};

void engine_view_read(const struct engine_place *place, struct engine_view *view_out);
/* As served_model_card, but LOADING and DRAINING are looked at: what a client is answered. */
MUST_CHECK enum status engine_view_card(const struct engine_place *place, struct rpc_call *rpc,
                                        struct model_card *card_out);
