/*
 * watchdog - checks that a worker's threads make progress; liveness depends on it.
 *
 * A worker is stuck if in one engine step no layer was finished for longer than the limit (the step itself may
 * be longer), or if the transfer thread was woken and made no round for as long.
 *
 * Thread: main, which looks every WATCHDOG_LOOK_MS.
 */
#pragma once

#include "base/stall.h"
#include "engine/engine_thread.h"
#include "kvtransfer/transfer_thread.h"
#include "model/forward/forward.h"
#include "worker_common/drafter.h"

#define WATCHDOG_LOOK_MS 250

struct watchdog {
    const struct engine_thread *engine;
    const struct forward *forward; /* the forward pass of its steps, */
    const struct drafter *drafter; /* and those that guess; NULL: none */
    const struct transfer_thread *transfer;
    struct transport *transport; /* to wake the transfer thread */
    uint64_t limit_ns;
    struct stall rounds; /* of the transfer thread */
    struct stall layers; /* of the forward pass */
    bool is_stuck;
};

/* Logs changes. */
bool watchdog_is_stuck(struct watchdog *watchdog, uint64_t now_ns);
