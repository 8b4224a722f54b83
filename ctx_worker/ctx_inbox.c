#include "ctx_worker/ctx_inbox.h"

#include <assert.h>
#include <sched.h>

/* Prefill and stream_ended of every handle, and as many again of handles that were finished while
 * their stream_ended was on its way. */
#define MESSAGES_A_STREAM 4u

enum status ctx_inbox_init(struct ctx_inbox *inbox, uint32_t streams_max, uint32_t calls_max)
{
    inbox->streams_max = streams_max;
    inbox->calls_max = calls_max;
    atomic_init(&inbox->n_streams, 0);
    atomic_init(&inbox->n_calls, 0);
    atomic_init(&inbox->drain_wanted, false);
    atomic_init(&inbox->stop_wanted, false);
    return ring_create(sizeof(struct ctx_message), streams_max * MESSAGES_A_STREAM + calls_max,
                       &inbox->ring);
}

void ctx_inbox_finish(struct ctx_inbox *inbox)
{
    struct ctx_message message;
    if (!inbox->ring)
        return;
    while (ring_pop(inbox->ring, &message))
        if (message.kind == CTX_MESSAGE_PREFILL)
            prompt_destroy(message.prompt);
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

enum status ctx_inbox_take_prompt(struct ctx_inbox *inbox, struct prompt *prompt)
{
    if (!count_up(&inbox->n_streams, inbox->streams_max))
        return STATUS_QUEUE_FULL;
    ctx_inbox_post(inbox, &(struct ctx_message){.kind = CTX_MESSAGE_PREFILL,
                                                .handle = prompt->stream,
                                                .prompt = prompt});
    return STATUS_OK;
}

void ctx_inbox_post(struct ctx_inbox *inbox, const struct ctx_message *message)
{
    while (ring_push(inbox->ring, message) != STATUS_OK)
        sched_yield();
}

enum status ctx_inbox_post_call(struct ctx_inbox *inbox, const struct ctx_message *message)
{
    if (!count_up(&inbox->n_calls, inbox->calls_max))
        return STATUS_QUEUE_FULL;
    ctx_inbox_post(inbox, message);
    return STATUS_OK;
}

bool ctx_inbox_take(struct ctx_inbox *inbox, struct ctx_message *message_out)
{
    if (!ring_pop(inbox->ring, message_out))
        return false;
    switch (message_out->kind) {
    case CTX_MESSAGE_COMMIT:
    case CTX_MESSAGE_ABORT:
    case CTX_MESSAGE_FLUSH:
        atomic_fetch_sub(&inbox->n_calls, 1);
        break;
    case CTX_MESSAGE_PREFILL:
    case CTX_MESSAGE_STREAM_ENDED:
        break;
    }
    return true;
}

void ctx_inbox_forget_stream(struct ctx_inbox *inbox)
{
    unsigned before = atomic_fetch_sub(&inbox->n_streams, 1);
    assert(before > 0);
    (void)before;
}
