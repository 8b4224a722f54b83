/*
 * gen_described - which context worker computes a prompt, and what its blocks are like.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "kvcache/geometry.h"
#include "kvtransfer/transport/transport.h"

struct gen_described {
    struct transport_address address;
    struct geometry geometry;
    bool
        has_other_numerics; /* its KV is accepted, and may have other bits than KV of this worker */
};
