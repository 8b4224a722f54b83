#include "worker_common/watchdog.h"

#include "base/log/log.h"

#include <assert.h>

static uint64_t layers_done(const struct watchdog *watchdog)
{
    const uint64_t n = forward_layers_done(watchdog->forward);
    return watchdog->drafter ? n + drafter_layers_done(watchdog->drafter) : n;
}

bool watchdog_is_stuck(struct watchdog *watchdog, uint64_t now_ns)
{
    assert(watchdog->engine && watchdog->transfer && "both run until main stops them");
    assert(watchdog->forward && "which the engine has");
    uint64_t rounds = transfer_thread_rounds(watchdog->transfer);
    uint64_t still_ns = stall_look(&watchdog->rounds, rounds, now_ns);
    watchdog->transport->ops->wake(watchdog->transport);

    /* The count of layers also stands still between steps. */
    uint64_t layers_ns = stall_look(&watchdog->layers, layers_done(watchdog), now_ns);
    uint64_t step_ns = engine_thread_stuck_ns(watchdog->engine, now_ns);
    if (layers_ns < step_ns)
        step_ns = layers_ns;
    bool is_stuck = step_ns > watchdog->limit_ns || still_ns > watchdog->limit_ns;
    if (is_stuck && !watchdog->is_stuck)
        log_warn("no progress: step stands still for %.1f s, transfer thread silent for %.1f s",
                 (double)step_ns / (double)NS_PER_S, (double)still_ns / (double)NS_PER_S);
    if (!is_stuck && watchdog->is_stuck)
        log_info("progress again");
    watchdog->is_stuck = is_stuck;
    return is_stuck;
}
