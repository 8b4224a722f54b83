/*
 * worker_stream - a stream that a worker serves: the head of what its service keeps of the stream. It has two holders: the
 * engine until its finish, the call until its end. The last of them frees it.
 *
 * Thread: any. The service's thread creates it, then begins or refuses it. The engine's thread finishes it, perhaps before the
 * service's thread has begun it.
 */
#pragma once

#include "rpc/server/call.h"

#include <stdatomic.h>

struct worker_stream {
    struct rpc_call *call;
    uint64_t arrived_ns;
    atomic_uint holders;
    atomic_bool is_finished; /* by the engine: it wants no on_left any more */
    /* The reader has left, and the engine has to know. */
    void (*on_left)(struct worker_stream *stream);
};

/* bytes: of what it is the head of, whose other fields are zeros. NULL: no memory. */
void *worker_stream_create(size_t bytes, struct rpc_call *call,
                           void (*on_left)(struct worker_stream *stream), uint64_t now_ns);
/* The engine has taken it, and may have finished it already. */
void worker_stream_begin(struct worker_stream *stream);
/* The engine has not: the call fails, and both holders are gone. sentence: as for finish. */
void worker_stream_refuse(struct worker_stream *stream, enum status status, const char *sentence);
/* The engine's last word, once. sentence: NULL or "" when the status says all. */
void worker_stream_finish(struct worker_stream *stream, enum status status, const char *sentence);
