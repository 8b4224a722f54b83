/*
 * watchdog - whether a worker's threads make progress: health follows this, not mere liveness.
 *
 * Stuck is: one engine step in which no layer has been done for longer than the limit, however long it is; or a
 * transfer thread that was woken and made no round for as long.
 *
 * Thread: main, which calls look every WATCHDOG_LOOK_MS.
 */
#pragma once

#include "base/stall.h"
#include "engine/engine_thread.h"
#include "kvtransfer/transfer_thread.h"
#include "model/forward.h"

#define WATCHDOG_LOOK_MS 250

struct watchdog {
    const struct engine_thread *engine;
    const struct forward *forward; /* what its steps run */
    const struct transfer_thread *transfer;
    struct transport *transport; /* to wake the transfer thread */
    uint64_t limit_ns;
    struct stall rounds; /* of transfer */
    struct stall layers; /* of forward */
    bool is_stuck;
};

/* Logs when it changes. */
bool watchdog_is_stuck(struct watchdog *watchdog, uint64_t now_ns);
