/* What other threads say to a generation engine, and read from it. */
#include "gen_worker/gen_engine_state.h"

#include <stdlib.h>
#include <string.h>

enum status gen_engine_generate(struct gen_engine *engine, void *stream,
                                const struct gen_request *request, struct error *error)
{
    struct job *job;
    TRY(job_create(&engine->options, stream, request, error, &job));
    enum status status = gen_inbox_take_job(&engine->inbox, job);
    if (status != STATUS_OK) {
        job_destroy(job);
        return error_set(error, status, "%u requests are open on this worker, and this is the most",
                         engine->options.streams_max);
    }
    return STATUS_OK;
}

void gen_engine_stream_ended(struct gen_engine *engine, void *stream)
{
    engine_inbox_post(&engine->inbox,
                      &(struct gen_message){.kind = GEN_MESSAGE_STREAM_ENDED, .handle = stream});
}

enum status gen_engine_described(struct gen_engine *engine, uint64_t prefill,
                                 const struct gen_described *described)
{
    struct gen_described *copy = malloc(sizeof *copy);
    if (!copy)
        return STATUS_NO_MEMORY;
    *copy = *described;
    enum status status = engine_inbox_post_counted(
        &engine->inbox, &(struct gen_message){
                            .kind = GEN_MESSAGE_DESCRIBED, .prefill = prefill, .described = copy});
    if (status != STATUS_OK)
        free(copy);
    return status;
}

enum status gen_engine_prefill_event(struct gen_engine *engine, uint64_t prefill,
                                     const struct prefill_event *event)
{
    return gen_inbox_post_event(&engine->inbox, prefill, event);
}

static void post_end(struct gen_engine *engine, enum gen_message_kind kind, uint64_t prefill,
                     enum status status, const char *sentence)
{
    struct gen_message message = {.kind = kind, .prefill = prefill};
    message.end.status = status;
    strncpy(message.end.error.text, sentence, sizeof message.end.error.text - 1);
    engine_inbox_post(&engine->inbox, &message);
}

void gen_engine_prefill_end(struct gen_engine *engine, uint64_t prefill, enum status status,
                            const char *sentence)
{
    post_end(engine, GEN_MESSAGE_PREFILL_END, prefill, status, sentence);
}

void gen_engine_commit_result(struct gen_engine *engine, uint64_t prefill, enum status status,
                              const char *sentence)
{
    post_end(engine, GEN_MESSAGE_COMMIT_RESULT, prefill, status, sentence);
}

enum status gen_engine_drop_peer(struct gen_engine *engine, uint64_t incarnation)
{
    return engine_inbox_post_counted(
        &engine->inbox,
        &(struct gen_message){.kind = GEN_MESSAGE_DROP_PEER, .incarnation = incarnation});
}

enum status gen_engine_distrust(struct gen_engine *engine, uint64_t incarnation)
{
    return engine_inbox_post_counted(
        &engine->inbox,
        &(struct gen_message){.kind = GEN_MESSAGE_DISTRUST, .incarnation = incarnation});
}

enum status gen_engine_flush(struct gen_engine *engine, void *call)
{
    return engine_inbox_post_counted(
        &engine->inbox, &(struct gen_message){.kind = GEN_MESSAGE_FLUSH, .handle = call});
}

void gen_engine_drain(struct gen_engine *engine)
{
    engine_inbox_drain(&engine->inbox);
}

void gen_engine_stop(struct gen_engine *engine)
{
    engine_inbox_stop(&engine->inbox);
}

void gen_engine_wait(struct gen_engine *engine, uint64_t until_ns)
{
    engine_inbox_wait(&engine->inbox, until_ns);
}

void gen_engine_wake(void *engine)
{
    engine_inbox_wake(&((struct gen_engine *)engine)->inbox);
}

void gen_engine_read_stats(struct gen_engine *engine, struct gen_engine_stats *stats_out)
{
    published_get(&engine->published, stats_out, sizeof *stats_out);
}
