#include "worker_common/worker_stream.h"

#include <assert.h>
#include <stdlib.h>

void *worker_stream_create(size_t bytes, struct rpc_call *call,
                           void (*on_left)(struct worker_stream *stream), uint64_t now_ns)
{
    struct worker_stream *stream = calloc(1, bytes);
    if (!stream)
        return NULL;
    assert(bytes >= sizeof *stream);
    stream->call = rpc_call_share(call);
    stream->arrived_ns = now_ns;
    stream->on_left = on_left;
    atomic_init(&stream->holders, 2);
    return stream;
}

static void release(struct worker_stream *stream)
{
    unsigned n_before = atomic_fetch_sub(&stream->holders, 1);
    assert(n_before >= 1 && n_before <= 2 && "the engine and the call");
    if (n_before != 1)
        return;
    rpc_call_release(stream->call);
    free(stream);
}

static void on_end(void *arg, enum status why)
{
    struct worker_stream *stream = arg;
    (void)why;
    if (!atomic_load(&stream->is_finished))
        stream->on_left(stream);
    release(stream);
}

void worker_stream_begin(struct worker_stream *stream)
{
    rpc_call_on_end(stream->call, on_end, stream);
}

static void end_call(struct rpc_call *call, enum status status, const char *sentence)
{
    if (status == STATUS_OK)
        rpc_call_finish(call);
    else
        rpc_call_fail_status(call, status, "%s",
                             sentence && sentence[0] ? sentence : status_text(status));
}

void worker_stream_refuse(struct worker_stream *stream, enum status status, const char *sentence)
{
    assert(status != STATUS_OK);
    end_call(stream->call, status, sentence);
    release(stream); /* the engine's hold: the engine never gets the stream */
    release(stream); /* the call's hold: no on_end comes */
}

void worker_stream_finish(struct worker_stream *stream, enum status status, const char *sentence)
{
    assert(!atomic_load(&stream->is_finished) && "each stream is finished once");
    atomic_store(&stream->is_finished, true);
    end_call(stream->call, status, sentence);
    release(stream);
}
