/* What other threads say to a context engine, and read from it. */
#include "ctx_worker/ctx_engine_state.h"

enum status ctx_engine_prefill(struct ctx_engine *engine, void *stream,
                               const struct ctx_prefill_request *request, struct error *error)
{
    struct prompt *prompt;
    TRY(prompt_create(&engine->options, stream, request, error, &prompt));
    enum status status = ctx_inbox_take_prompt(&engine->inbox, prompt);
    if (status != STATUS_OK) {
        prompt_destroy(prompt);
        return error_set(error, status, "%u prefills are open on this worker, and this is the most",
                         engine->options.streams_max);
    }
    return STATUS_OK;
}

void ctx_engine_stream_ended(struct ctx_engine *engine, void *stream)
{
    engine_inbox_post(&engine->inbox,
                      &(struct ctx_message){.kind = CTX_MESSAGE_STREAM_ENDED, .handle = stream});
}

enum status ctx_engine_commit(struct ctx_engine *engine, const struct held_commit *commit,
                              struct error *error)
{
    struct ctx_message message = {.kind = CTX_MESSAGE_COMMITTED};
    enum status status = held_transfers_grant(&engine->held, commit, error, &message.held_number);
    if (status == STATUS_OK)
        engine_inbox_post(&engine->inbox, &message);
    else
        engine_inbox_wake(&engine->inbox); /* its next round publishes the figures */
    return status;
}

enum status ctx_engine_abort(struct ctx_engine *engine, void *call, const char *request_id)
{
    return ctx_inbox_post_abort(&engine->inbox, call, request_id);
}

enum status ctx_engine_flush(struct ctx_engine *engine, void *call)
{
    return engine_inbox_post_counted(
        &engine->inbox, &(struct ctx_message){.kind = CTX_MESSAGE_FLUSH, .handle = call});
}

void ctx_engine_drain(struct ctx_engine *engine)
{
    engine_inbox_drain(&engine->inbox);
}

void ctx_engine_stop(struct ctx_engine *engine)
{
    engine_inbox_stop(&engine->inbox);
}

void ctx_engine_wait(struct ctx_engine *engine, uint64_t until_ns)
{
    engine_inbox_wait(&engine->inbox, until_ns);
}

void ctx_engine_wake(void *engine)
{
    engine_inbox_wake(&((struct ctx_engine *)engine)->inbox);
}

void ctx_engine_read_stats(struct ctx_engine *engine, struct ctx_engine_stats *stats_out)
{
    published_get(&engine->published, stats_out, sizeof *stats_out);
}
