#include "base/http/http_feed.h"

#include "base/log/log.h"

#include <assert.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#define FEED_SEND_BYTES 65536 /* the kernel's buffer of a reader */

struct reader {
    struct http_feed_readers *readers;
    struct bufferevent *stream;
    uint32_t n_missed; /* events in a row */
    TAILQ_ENTRY(reader) link;
};

TAILQ_HEAD(reader_list, reader);

struct http_feed_readers {
    const struct http_feed *feed;
    struct event *next_event; /* pending while there are readers */
    struct reader_list list;  /* oldest first */
    struct reader_list free;
    uint32_t n;
    struct reader slots[]; /* [readers_max] */
};

static void count(struct http_feed_readers *readers, uint32_t n)
{
    assert(n <= readers->feed->readers_max);
    readers->n = n;
    readers->feed->count(readers->feed->arg, n);
}

static void reader_close(struct reader *reader)
{
    struct http_feed_readers *readers = reader->readers;
    assert(readers->n > 0);
    TAILQ_REMOVE(&readers->list, reader, link);
    count(readers, readers->n - 1);
    bufferevent_free(reader->stream);
    reader->stream = NULL;
    TAILQ_INSERT_TAIL(&readers->free, reader, link);
}

/* ---- events ---- */

static void send_event(struct reader *reader, const char *text, size_t n)
{
    struct evbuffer *out = bufferevent_get_output(reader->stream);
    reader->n_missed = 0;
    evbuffer_add(out, "data: ", strlen("data: "));
    evbuffer_add(out, text, n);
    evbuffer_add(out, "\n\n", 2);
}

static void await_next_event(struct http_feed_readers *readers)
{
    const uint32_t ms = readers->feed->interval_ms;
    const struct timeval interval = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
    event_add(readers->next_event, &interval);
}

static void on_next_event(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct http_feed_readers *readers = arg;
    const struct http_feed *feed = readers->feed;
    const char *text = NULL;
    size_t n = 0;
    struct reader *next;
    for (struct reader *reader = TAILQ_FIRST(&readers->list); reader; reader = next) {
        next = TAILQ_NEXT(reader, link);
        bool is_behind = evbuffer_get_length(bufferevent_get_output(reader->stream)) > 0;
        if (is_behind && (uint64_t)++reader->n_missed * feed->interval_ms >= feed->behind_ms) {
            log_info("a reader of %s is cut off: it has been behind for %u ms", feed->path,
                     feed->behind_ms);
            reader_close(reader);
        } else if (!is_behind) {
            if (!text)
                feed->make(feed->arg, &text, &n);
            send_event(reader, text, n);
        }
    }
    if (readers->n > 0)
        await_next_event(readers);
}

/* ---- readers ---- */

/* What a reader sends is read and discarded. */
static void on_readable(struct bufferevent *stream, void *arg)
{
    struct evbuffer *in = bufferevent_get_input(stream);
    (void)arg;
    evbuffer_drain(in, evbuffer_get_length(in));
}

static void on_end(struct bufferevent *stream, short what, void *arg)
{
    (void)stream;
    (void)what;
    reader_close(arg);
}

bool http_feed_readers_is_full(const struct http_feed_readers *readers)
{
    return TAILQ_EMPTY(&readers->free);
}

void http_feed_readers_add(struct http_feed_readers *readers, struct bufferevent *stream)
{
    const struct http_feed *feed = readers->feed;
    const int send_bytes = FEED_SEND_BYTES;
    const char *text;
    size_t n;
    struct reader *reader = TAILQ_FIRST(&readers->free);
    assert(reader && !reader->stream);
    TAILQ_REMOVE(&readers->free, reader, link);
    reader->stream = stream;
    (void)setsockopt(bufferevent_getfd(stream), SOL_SOCKET, SO_SNDBUF, &send_bytes,
                     sizeof send_bytes);
    bufferevent_setcb(stream, on_readable, NULL, on_end, reader);
    TAILQ_INSERT_TAIL(&readers->list, reader, link);
    count(readers, readers->n + 1);
    feed->make(feed->arg, &text, &n);
    send_event(reader, text, n);
    if (!event_pending(readers->next_event, EV_TIMEOUT, NULL))
        await_next_event(readers);
}

bool http_feed_readers_close_oldest(struct http_feed_readers *readers)
{
    struct reader *oldest = TAILQ_FIRST(&readers->list);
    if (oldest)
        reader_close(oldest);
    return oldest;
}

/* ---- create ---- */

enum status http_feed_readers_create(struct event_base *base, const struct http_feed *feed,
                                     struct http_feed_readers **readers_out)
{
    assert(feed->readers_max > 0 && feed->interval_ms > 0);
    struct http_feed_readers *readers = calloc(1, sizeof *readers +
                                                      feed->readers_max * sizeof *readers->slots);
    if (!readers)
        return STATUS_NO_MEMORY;
    readers->feed = feed;
    TAILQ_INIT(&readers->list);
    TAILQ_INIT(&readers->free);
    for (uint32_t i = 0; i < feed->readers_max; i++) {
        readers->slots[i].readers = readers;
        TAILQ_INSERT_TAIL(&readers->free, &readers->slots[i], link);
    }
    readers->next_event = evtimer_new(base, on_next_event, readers);
    if (!readers->next_event) {
        http_feed_readers_destroy(readers);
        return STATUS_NO_MEMORY;
    }
    *readers_out = readers;
    return STATUS_OK;
}

void http_feed_readers_destroy(struct http_feed_readers *readers)
{
    if (!readers)
        return;
    while (http_feed_readers_close_oldest(readers))
        ;
    assert(readers->n == 0);
    if (readers->next_event)
        event_free(readers->next_event);
    free(readers);
}
