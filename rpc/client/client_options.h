/*
 * client_options - what a client is given. Its functions are in client.h, those of its calls in client_call.h.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/clock.h"
#include "base/status.h"
#include "rpc/auth/cluster_key.h"
#include "rpc/runtime/runtime.h"
#include "rpc/tls/client_tls.h"

#include <stdbool.h>
#include <stdint.h>

struct rpc_client;
struct rpc_channel;

struct rpc_client_options {
    uint32_t message_bytes_max;
    uint32_t header_bytes_max;
    uint32_t keepalive_time_ms;
    uint32_t keepalive_timeout_ms;
    uint32_t reconnect_max_ms;
    /* Not NULL: every call is signed, and nothing is accepted from a server that has not proved that
     * it knows the key (call_auth.h). Borrowed. */
    struct cluster_key *key;
    uint64_t (*now_ms)(void);         /* the time for signatures; NULL: clock_unix_ms */
    const struct rpc_client_tls *tls; /* NULL: clear text. Borrowed */
};
