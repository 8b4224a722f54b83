#include "engine/engine_inbox.h"

#include "base/ring.h"

#include <assert.h>
#include <sched.h>

#define MESSAGES_A_STREAM 4u

enum status engine_inbox_init(struct engine_inbox *inbox, size_t message_bytes,
                              const struct engine_inbox_bounds *bounds)
{
    inbox->bounds = *bounds;
    atomic_init(&inbox->n_streams, 0);
    atomic_init(&inbox->n_counted, 0);
    atomic_init(&inbox->drain_wanted, false);
    atomic_init(&inbox->stop_wanted, false);
    assert(message_bytes > 0 && !inbox->ring);
    uint32_t messages_max = bounds->streams_max * MESSAGES_A_STREAM + bounds->counted_max +
                            bounds->others_max;
    return ring_create(message_bytes, messages_max, &inbox->ring);
}

void engine_inbox_finish(struct engine_inbox *inbox)
{
    ring_destroy(inbox->ring);
    inbox->ring = NULL;
}

/* Counts one more, unless max are counted already. */
static bool count_up(atomic_uint *counter, uint32_t max)
{
    unsigned before = atomic_fetch_add(counter, 1);
    if (before < max)
        return true;
    atomic_fetch_sub(counter, 1);
    return false;
}

static void count_down(atomic_uint *counter)
{
    unsigned before = atomic_fetch_sub(counter, 1);
    assert(before > 0);
    (void)before;
}

void engine_inbox_post(struct engine_inbox *inbox, const void *message)
{
    while (ring_push(inbox->ring, message) != STATUS_OK)
        sched_yield();
}

enum status engine_inbox_post_stream(struct engine_inbox *inbox, const void *message)
{
    if (!count_up(&inbox->n_streams, inbox->bounds.streams_max))
        return STATUS_QUEUE_FULL;
    engine_inbox_post(inbox, message);
    return STATUS_OK;
}

enum status engine_inbox_post_counted(struct engine_inbox *inbox, const void *message)
{
    if (!count_up(&inbox->n_counted, inbox->bounds.counted_max))
        return STATUS_QUEUE_FULL;
    engine_inbox_post(inbox, message);
    return STATUS_OK;
}

bool engine_inbox_take(struct engine_inbox *inbox, void *message_out)
{
    return ring_pop(inbox->ring, message_out);
}

bool engine_inbox_peek(const struct engine_inbox *inbox, uint32_t at, void *message_out)
{
    return ring_peek(inbox->ring, at, message_out);
}

void engine_inbox_taken_counted(struct engine_inbox *inbox)
{
    count_down(&inbox->n_counted);
}

void engine_inbox_forget_stream(struct engine_inbox *inbox)
{
    count_down(&inbox->n_streams);
}

bool engine_inbox_is_empty(const struct engine_inbox *inbox)
{
    return ring_count(inbox->ring) == 0;
}

void engine_inbox_drain(struct engine_inbox *inbox)
{
    atomic_store(&inbox->drain_wanted, true);
    ring_wake(inbox->ring);
}

void engine_inbox_stop(struct engine_inbox *inbox)
{
    atomic_store(&inbox->drain_wanted, true);
    atomic_store(&inbox->stop_wanted, true);
    ring_wake(inbox->ring);
}

bool engine_inbox_wants_drain(const struct engine_inbox *inbox)
{
    return atomic_load(&inbox->drain_wanted);
}

bool engine_inbox_wants_stop(const struct engine_inbox *inbox)
{
    bool is_wanted = atomic_load(&inbox->stop_wanted);
    assert((!is_wanted || atomic_load(&inbox->drain_wanted)) && "a stop is a drain, too");
    return is_wanted;
}

void engine_inbox_wait(struct engine_inbox *inbox, uint64_t until_ns)
{
    ring_wait(inbox->ring, until_ns);
}

void engine_inbox_wake(struct engine_inbox *inbox)
{
    ring_wake(inbox->ring);
}
