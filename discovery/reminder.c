#include "discovery/reminder.h"

#include "base/clock.h"

#include <assert.h>

#define INTERVAL_MAX_NS (1024 * NS_PER_S)

bool reminder_is_due(struct reminder *reminder, bool is_wrong, uint64_t now_ns)
{
    if (!is_wrong) {
        *reminder = (struct reminder){0};
        return false;
    }
    if (reminder->due_ns == 0)
        *reminder = (struct reminder){.due_ns = now_ns + NS_PER_S, .interval_ns = NS_PER_S};
    assert(reminder->interval_ns >= NS_PER_S);
    if (now_ns < reminder->due_ns)
        return false;
    if (reminder->interval_ns < INTERVAL_MAX_NS)
        reminder->interval_ns *= 4;
    reminder->due_ns = now_ns + reminder->interval_ns;
    return true;
}
