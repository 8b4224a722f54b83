#include "cli/serve/revival.h"

#include "base/clock.h"

#include <assert.h>

void revival_serves(struct revival *revival, uint64_t now_ns)
{
    if (revival->served_ns == 0)
        revival->served_ns = now_ns;
}

uint64_t revival_ended(struct revival *revival, uint64_t now_ns)
{
    assert(revival->served_ns <= now_ns);
    bool was_good = revival->served_ns > 0 &&
                    now_ns - revival->served_ns >= REVIVAL_GOOD_MS * NS_PER_MS;
    uint64_t last_ms = was_good ? 0 : revival->pause_ms;
    uint64_t pause_ms = last_ms == 0 ? REVIVAL_FIRST_MS : 2 * last_ms;
    if (pause_ms > REVIVAL_MAX_MS)
        pause_ms = REVIVAL_MAX_MS;
    *revival = (struct revival){.pause_ms = pause_ms, .due_ns = now_ns + pause_ms * NS_PER_MS};
    return pause_ms;
}

bool revival_is_due(struct revival *revival, uint64_t now_ns)
{
    if (revival->due_ns == 0 || now_ns < revival->due_ns)
        return false;
    revival->due_ns = 0;
    return true;
}

bool revival_waits(const struct revival *revival)
{
    return revival->due_ns > 0;
}
