/* session_time - the time limits of a session. */
#include "base/clock.h"
#include "rpc/relay/session_parts.h"

#define RETRY_NS (50 * NS_PER_MS) /* until the next look for a frame boundary */

static void check_connection(struct session *session, uint64_t now_ns, struct session_event *event)
{
    const struct relay_limits *limits = session->common->limits;
    if (!session->has_settings && now_ns >= session->began_ns + limits->handshake_ns)
        session_set_close(session, RELAY_LIMIT_HANDSHAKE_TIME, FRAME_NO_ERROR, event);
    else if (session->n_settings_sent > 0 &&
             now_ns >= session->settings_sent_ns + limits->settings_ns)
        session_set_close(session, RELAY_LIMIT_SETTINGS_TIME, FRAME_SETTINGS_TIMEOUT, event);
    else if (session->frame_began_ns && now_ns >= session->frame_began_ns + limits->frame_ns)
        session_set_close(session, RELAY_LIMIT_FRAME_TIME, FRAME_ENHANCE_YOUR_CALM, event);
    else if (!session_is_proven(session) && session->streams.n == 0 &&
             now_ns >= session->called_ns + limits->unproven_ns)
        session_set_close(session, RELAY_LIMIT_UNPROVEN_TIME, FRAME_NO_ERROR, event);
}

/* Also for a stream that was answered before, if its next message is large. */
static bool is_timed(const struct open_stream *stream)
{
    return open_stream_is_half(stream) || request_window_is_large(&stream->window);
}

static bool has_timed(const struct session *session)
{
    return session->n_half_open > 0 || session->room.bytes > 0 || session->room.n_waiting > 0;
}

static uint64_t silent_ns(const struct session *session, const struct open_stream *stream)
{
    uint64_t since_ns = stream->window.since_ns;
    return (stream->heard_ns > since_ns ? stream->heard_ns : since_ns) +
           session->common->limits->half_open_ns;
}

/* A stream that waits for room may be silent. */
static uint64_t stream_due_ns(const struct session *session, const struct open_stream *stream)
{
    uint64_t began_ns = open_stream_is_half(stream) ? stream->opened_ns : stream->window.since_ns;
    uint64_t due_ns = began_ns + session->common->limits->request_ns;
    return stream->window.withheld > 0 ? due_ns : clock_earlier(silent_ns(session, stream), due_ns);
}

/* A stream whose unfinished request has exceeded a time limit, or NULL. */
static struct open_stream *find_late(const struct session *session, uint64_t now_ns)
{
    for (uint32_t i = 0; has_timed(session) && i < session->streams.n; i++) {
        struct open_stream *stream = &session->streams.streams[i];
        if (is_timed(stream) && now_ns >= stream_due_ns(session, stream))
            return stream;
    }
    return NULL;
}

static void reset_late(struct session *session, struct open_stream *stream, uint64_t now_ns,
                       struct session_event *event)
{
    bool is_silent = stream->window.withheld == 0 && now_ns >= silent_ns(session, stream);
    enum relay_limit limit = is_silent ? RELAY_LIMIT_HALF_OPEN_TIME : RELAY_LIMIT_REQUEST_TIME;
    session_count(session->common, limit);
    *event = (struct session_event){
        .kind = SESSION_RESET, .limit = limit, .error = FRAME_CANCEL, .stream = stream->id};
    session_remove_stream(session, stream);
}

/* Frees the room of requests that the core has passed on; returns when the next one is due, or
 * DEADLINE_NONE. */
static uint64_t release_taken(struct session *session, uint64_t now_ns)
{
    uint64_t due_ns = DEADLINE_NONE;
    for (uint32_t i = 0; session->room.bytes > 0 && i < session->streams.n; i++) {
        struct open_stream *stream = &session->streams.streams[i];
        if (stream->window.ended_ns == 0)
            continue;
        if (now_ns >= stream->window.ended_ns + REQUEST_TAKEN_NS)
            session_release_room(session, stream);
        else
            due_ns = clock_earlier(due_ns, stream->window.ended_ns + REQUEST_TAKEN_NS);
    }
    return due_ns;
}

static uint64_t find_due_ns(const struct session *session, uint64_t now_ns)
{
    const struct relay_limits *limits = session->common->limits;
    uint64_t due_ns = DEADLINE_NONE;
    if (!session->has_settings)
        due_ns = clock_earlier(due_ns, session->began_ns + limits->handshake_ns);
    if (session->n_settings_sent > 0)
        due_ns = clock_earlier(due_ns, session->settings_sent_ns + limits->settings_ns);
    if (session->frame_began_ns)
        due_ns = clock_earlier(due_ns, session->frame_began_ns + limits->frame_ns);
    if (!session_is_proven(session) && session->streams.n == 0)
        due_ns = clock_earlier(due_ns, session->called_ns + limits->unproven_ns);
    for (uint32_t i = 0; has_timed(session) && i < session->streams.n; i++)
        if (is_timed(&session->streams.streams[i]))
            due_ns = clock_earlier(due_ns, stream_due_ns(session, &session->streams.streams[i]));
    return due_ns > now_ns ? due_ns : now_ns + RETRY_NS;
}

void session_expire(struct session *session, uint64_t now_ns, struct session_event *event_out)
{
    *event_out = (struct session_event){.kind = SESSION_NOTHING};
    uint64_t taken_due_ns = release_taken(session, now_ns);
    check_connection(session, now_ns, event_out);
    if (event_out->kind != SESSION_NOTHING)
        return;
    struct open_stream *late = find_late(session, now_ns);
    if (late && session_may_reset(session))
        reset_late(session, late, now_ns, event_out);
    else
        session->due_ns = clock_earlier(taken_due_ns, find_due_ns(session, now_ns));
}
