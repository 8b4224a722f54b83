#include "gen_worker/gen_inbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* prefill_end and commit_result */
#define MESSAGES_A_PREFILL 2u

enum status gen_inbox_init(struct engine_inbox *inbox, const struct gen_engine_options *options)
{
    const struct engine_inbox_bounds bounds = {
        .streams_max = options->streams_max,
        .counted_max = options->events_max,
        .others_max = options->prefills_max * MESSAGES_A_PREFILL,
    };
    return engine_inbox_init(inbox, sizeof(struct gen_message), &bounds);
}

void gen_inbox_finish(struct engine_inbox *inbox)
{
    struct gen_message message;
    while (inbox->ring && engine_inbox_take(inbox, &message))
        gen_message_finish(&message);
    engine_inbox_finish(inbox);
}

void gen_message_finish(struct gen_message *message)
{
    if (message->kind == GEN_MESSAGE_REQUEST)
        job_destroy(message->job);
    else if (message->kind == GEN_MESSAGE_DESCRIBED)
        free(message->described);
    else if (message->kind == GEN_MESSAGE_PREFILL_EVENT)
        free(message->box);
}

enum status gen_inbox_take_job(struct engine_inbox *inbox, struct job *job)
{
    assert(job->request.stream && "the end of a stream finds its job, and NULL would end all");
    return engine_inbox_post_stream(inbox, &(struct gen_message){.kind = GEN_MESSAGE_REQUEST,
                                                                 .handle = job->request.stream,
                                                                 .job = job});
}

/* With a copy of the event's one array, in arrays. */
static struct gen_event_box *box_with(const struct prefill_event *event, const void *array,
                                      size_t bytes)
{
    struct gen_event_box *box = malloc(sizeof *box + bytes);
    if (!box)
        return NULL;
    box->event = *event;
    memcpy(box->arrays, array, bytes);
    return box;
}

static struct gen_event_box *box_scores(const struct prefill_event *event)
{
    static_assert(_Alignof(struct token_logprobs) == _Alignof(uint32_t), "arrays has them");
    struct gen_event_box *box = box_with(event, event->scores.logprobs,
                                         event->scores.n * sizeof *event->scores.logprobs);
    if (box)
        box->event.scores.logprobs = (const struct token_logprobs *)(const void *)box->arrays;
    return box;
}

/* Of a beam search. */
static struct gen_event_box *box_ranked(const struct prefill_event *event)
{
    static_assert(_Alignof(struct ranked_row) == _Alignof(uint32_t), "arrays has it");
    struct gen_event_box *box = box_with(event, event->first_token.ranked,
                                         sizeof *event->first_token.ranked);
    if (box)
        box->event.first_token.ranked = (const struct ranked_row *)(const void *)box->arrays;
    return box;
}

static struct gen_event_box *box_event(const struct prefill_event *event)
{
    if (event->kind == EVENT_SCORES)
        return box_scores(event);
    if (event->kind == EVENT_FIRST_TOKEN && event->first_token.ranked)
        return box_ranked(event);
    bool has_arrays = event->kind == EVENT_READY;
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

enum status gen_inbox_post_event(struct engine_inbox *inbox, uint64_t prefill,
                                 const struct prefill_event *event)
{
    struct gen_event_box *box = box_event(event);
    if (!box)
        return STATUS_NO_MEMORY;
    enum status status = engine_inbox_post_counted(
        inbox,
        &(struct gen_message){.kind = GEN_MESSAGE_PREFILL_EVENT, .prefill = prefill, .box = box});
    if (status != STATUS_OK)
        free(box);
    return status;
}

bool gen_inbox_take(struct engine_inbox *inbox, struct gen_message *message_out)
{
    if (!engine_inbox_take(inbox, message_out))
        return false;
    if (message_out->kind >= GEN_MESSAGE_DESCRIBED)
        engine_inbox_taken_counted(inbox);
    return true;
}
