#include "process/event_streams.h"

#include "base/clock.h"
#include "process/caller.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct served {
    struct event_stream stream;
    struct event_streams *home;
    struct served *next; /* in home->first */
    struct rpc_call *call;
    uint64_t caller;
    uint64_t n_overruns; /* that were counted */
    bool is_quiet;       /* all that was sent has left */
};

struct event_streams {
    struct event_streams_options options;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    struct served *first;
    uint32_t n;
    bool is_stopping, is_hurried; /* hurried: a stream has more to say now */
};

/* ---- the thread ---- */

static void count_overruns(struct served *served)
{
    const uint64_t n = span_reader_overruns(served->stream.reader);
    if (served->home->options.n_overruns)
        counter_add(served->home->options.n_overruns, n - served->n_overruns);
    served->n_overruns = n;
}

static void serve(struct served *served, uint64_t now_ns)
{
    const struct event_streams_options *options = &served->home->options;
    struct event_stream *stream = &served->stream;
    stream->has_more = false;
    const ProtobufCMessage *message = options->next(options->arg, stream, now_ns);
    count_overruns(served);
    if (!message)
        return;
    stream->is_first = false;
    served->is_quiet = false;
    const enum status status = rpc_call_send(served->call, message);
    if (status == STATUS_NO_MEMORY)
        rpc_call_fail_status(served->call, status, "%s", status_text(status));
    /* CANCELLED, QUEUE_FULL: it is over, and on_end comes. */
}

/* A reader that is behind gets its next message at once; one that is not, with what comes in a period. */
static void *run(void *arg)
{
    struct event_streams *streams = arg;
    const struct event_streams_options *options = &streams->options;
    uint64_t next_ns = 0;
    pthread_mutex_lock(&streams->mutex);
    while (!streams->is_stopping) {
        const uint64_t now_ns = clock_now_ns();
        const bool is_time = now_ns >= next_ns;
        streams->is_hurried = false;
        if (is_time && streams->n > 0 && options->tick)
            options->tick(options->arg, now_ns);
        for (struct served *served = streams->first; served; served = served->next)
            if (served->is_quiet && (is_time || served->stream.has_more || served->stream.is_first))
                serve(served, now_ns);
        if (is_time)
            next_ns = now_ns + options->period_ns;
        if (streams->is_hurried || streams->is_stopping)
            continue;
        if (streams->n == 0) {
            pthread_cond_wait(&streams->changed, &streams->mutex);
            continue;
        }
        const struct timespec until = {.tv_sec = (time_t)(next_ns / NS_PER_S),
                                       .tv_nsec = (long)(next_ns % NS_PER_S)};
        (void)pthread_cond_timedwait(&streams->changed, &streams->mutex, &until);
    }
    pthread_mutex_unlock(&streams->mutex);
    return NULL;
}

/* ---- the streams ---- */

static void hurry(struct event_streams *streams)
{
    streams->is_hurried = true;
    pthread_cond_signal(&streams->changed);
}

static void on_quiet(void *arg)
{
    struct served *served = arg;
    pthread_mutex_lock(&served->home->mutex);
    served->is_quiet = true;
    if (served->stream.has_more)
        hurry(served->home);
    pthread_mutex_unlock(&served->home->mutex);
}

static void destroy(struct served *served)
{
    rpc_call_release(served->call);
    span_reader_destroy(served->stream.reader);
    free(served);
}

static void tell_count(const struct event_streams *streams)
{
    if (streams->options.n_streams)
        gauge_set(streams->options.n_streams, streams->n);
}

static void on_end(void *arg, enum status why)
{
    struct served *served = arg;
    struct event_streams *streams = served->home;
    (void)why;
    pthread_mutex_lock(&streams->mutex);
    struct served **at = &streams->first;
    while (*at != served)
        at = &(*at)->next;
    *at = served->next;
    streams->n--;
    tell_count(streams);
    pthread_mutex_unlock(&streams->mutex);
    destroy(served);
}

static uint64_t caller_of(const struct rpc_call *call)
{
    char peer[128];
    rpc_call_peer(call, peer, sizeof peer);
    return caller_of_peer(peer);
}

/* Under the mutex. */
static enum status add(struct event_streams *streams, struct served *served)
{
    uint32_t n_own = 0;
    for (const struct served *other = streams->first; other; other = other->next)
        n_own += other->caller == served->caller;
    if (streams->n >= streams->options.streams_max)
        return STATUS_QUEUE_FULL;
    if (n_own >= streams->options.caller_max)
        return STATUS_SHARE_FULL;
    served->next = streams->first;
    streams->first = served;
    streams->n++;
    tell_count(streams);
    return STATUS_OK;
}

static struct served *make(struct event_streams *streams, struct rpc_call *call)
{
    struct served *served = calloc(1, sizeof *served);
    if (!served)
        return NULL;
    *served = (struct served){
        .home = streams, .caller = caller_of(call), .stream.is_first = true, .is_quiet = true};
    if (span_reader_create(streams->options.events, &served->stream.reader) != STATUS_OK) {
        free(served);
        return NULL;
    }
    served->call = rpc_call_share(call);
    return served;
}

void event_streams_open(struct event_streams *streams, struct rpc_call *call, bool resumes,
                        uint64_t after, const uint64_t *marks)
{
    struct served *served = make(streams, call);
    enum status status = served ? STATUS_OK : STATUS_NO_MEMORY;
    if (served && resumes)
        (void)span_reader_resume(served->stream.reader, after);
    if (served && marks)
        memcpy(served->stream.marks, marks, sizeof served->stream.marks);
    if (served)
        rpc_call_on_quiet(call, on_quiet, served);
    pthread_mutex_lock(&streams->mutex);
    if (served)
        status = add(streams, served);
    if (status == STATUS_OK)
        hurry(streams);
    pthread_mutex_unlock(&streams->mutex);
    if (status == STATUS_OK) {
        rpc_call_on_end(call, on_end,
                        served); /* last: it may be over already, and the stream gone */
        return;
    }
    rpc_call_fail_status(call, status, "%u streams of events at one time, of one caller %u",
                         streams->options.streams_max, streams->options.caller_max);
    if (served)
        destroy(served);
}

uint32_t event_streams_count(struct event_streams *streams)
{
    pthread_mutex_lock(&streams->mutex);
    const uint32_t n = streams->n;
    pthread_mutex_unlock(&streams->mutex);
    return n;
}

/* ---- creation ---- */

static void finish(struct event_streams *streams)
{
    pthread_cond_destroy(&streams->changed);
    pthread_mutex_destroy(&streams->mutex);
    free(streams);
}

enum status event_streams_create(const struct event_streams_options *options,
                                 struct event_streams **streams_out)
{
    struct event_streams *streams = calloc(1, sizeof *streams);
    pthread_condattr_t attributes;
    if (!streams)
        return STATUS_NO_MEMORY;
    streams->options = *options;
    pthread_mutex_init(&streams->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&streams->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&streams->thread, NULL, run, streams) != 0) {
        finish(streams);
        return STATUS_NO_THREAD;
    }
    (void)pthread_setname_np(streams->thread, options->thread_name);
    *streams_out = streams;
    return STATUS_OK;
}

void event_streams_destroy(struct event_streams *streams)
{
    if (!streams)
        return;
    pthread_mutex_lock(&streams->mutex);
    streams->is_stopping = true;
    pthread_cond_signal(&streams->changed);
    pthread_mutex_unlock(&streams->mutex);
    pthread_join(streams->thread, NULL);
    assert(streams->n == 0 && "the server has ended its calls");
    finish(streams);
}
