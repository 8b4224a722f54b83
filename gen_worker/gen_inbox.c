#include "gen_worker/gen_inbox.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

/* Request and stream_ended of every handle, and as many again of handles that were finished while
 * their stream_ended was on its way. */
#define MESSAGES_A_STREAM 4u
/* Its end and its commit's result. */
#define MESSAGES_A_PREFILL 2u

enum status gen_inbox_init(struct gen_inbox *inbox, const struct gen_engine_options *options)
{
    inbox->streams_max = options->streams_max;
    inbox->events_max = options->events_max;
    atomic_init(&inbox->n_streams, 0);
    atomic_init(&inbox->n_events, 0);
    atomic_init(&inbox->drain_wanted, false);
    atomic_init(&inbox->stop_wanted, false);
    uint32_t items_max = options->streams_max * MESSAGES_A_STREAM +
                         options->prefills_max * MESSAGES_A_PREFILL + options->events_max;
    return ring_create(sizeof(struct gen_message), items_max, &inbox->ring);
}

void gen_inbox_finish(struct gen_inbox *inbox)
{
    struct gen_message message;
    if (!inbox->ring)
        return;
    while (ring_pop(inbox->ring, &message))
        gen_message_finish(&message);
    ring_destroy(inbox->ring);
    inbox->ring = NULL;
}

void gen_message_finish(struct gen_message *message)
{
    if (message->kind == GEN_MESSAGE_REQUEST)
        job_destroy(message->job);
    else if (message->kind == GEN_MESSAGE_DESCRIBED)
        free(message->address);
    else if (message->kind == GEN_MESSAGE_PREFILL_EVENT)
        free(message->box);
}

static bool is_counted(enum gen_message_kind kind)
{
    return kind >= GEN_MESSAGE_DESCRIBED;
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

static void push(struct gen_inbox *inbox, const struct gen_message *message)
{
    while (ring_push(inbox->ring, message) != STATUS_OK)
        sched_yield();
}

enum status gen_inbox_take_job(struct gen_inbox *inbox, struct job *job)
{
    if (!count_up(&inbox->n_streams, inbox->streams_max))
        return STATUS_QUEUE_FULL;
    push(inbox,
         &(struct gen_message){.kind = GEN_MESSAGE_REQUEST, .handle = job->stream, .job = job});
    return STATUS_OK;
}

enum status gen_inbox_post_counted(struct gen_inbox *inbox, const struct gen_message *message)
{
    assert(is_counted(message->kind));
    if (!count_up(&inbox->n_events, inbox->events_max))
        return STATUS_QUEUE_FULL;
    push(inbox, message);
    return STATUS_OK;
}

void gen_inbox_post(struct gen_inbox *inbox, const struct gen_message *message)
{
    assert(!is_counted(message->kind));
    push(inbox, message);
}

static struct gen_event_box *box_event(const struct gen_prefill_event *event)
{
    bool has_arrays = event->kind == GEN_PREFILL_READY;
    uint32_t n = has_arrays ? event->ready.n_blocks : 0;
    size_t array_bytes = n * sizeof(uint32_t);
    struct gen_event_box *box = malloc(sizeof *box + 2 * array_bytes);
    if (!box)
        return NULL;
    box->event = *event;
    if (!has_arrays)
        return box;
    if (n > 0)
        memcpy(box->arrays, event->ready.block_ids, array_bytes);
    box->event.ready.block_ids = box->arrays;
    if (event->ready.digests) {
        if (n > 0)
            memcpy(box->arrays + n, event->ready.digests, array_bytes);
        box->event.ready.digests = box->arrays + n;
    }
    return box;
}

enum status gen_inbox_post_event(struct gen_inbox *inbox, uint64_t prefill,
                                 const struct gen_prefill_event *event)
{
    struct gen_event_box *box = box_event(event);
    if (!box)
        return STATUS_NO_MEMORY;
    enum status status = gen_inbox_post_counted(
        inbox,
        &(struct gen_message){.kind = GEN_MESSAGE_PREFILL_EVENT, .prefill = prefill, .box = box});
    if (status != STATUS_OK)
        free(box);
    return status;
}

bool gen_inbox_take(struct gen_inbox *inbox, struct gen_message *message_out)
{
    if (!ring_pop(inbox->ring, message_out))
        return false;
    if (is_counted(message_out->kind))
        atomic_fetch_sub(&inbox->n_events, 1);
    return true;
}

void gen_inbox_forget_stream(struct gen_inbox *inbox)
{
    unsigned before = atomic_fetch_sub(&inbox->n_streams, 1);
    assert(before > 0);
    (void)before;
}
