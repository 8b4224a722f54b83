/* session_data - the client's DATA frames in a session: bytes of a message, and padding, which counts only for flow
 * control. gRPC's core 1.51 resets a stream with padded DATA; until then the counts here are correct. */
#include "rpc/relay/session_parts.h"

#include <assert.h>

static bool is_padded(const struct session *session)
{
    return session->frame.flags & FRAME_FLAG_PADDED;
}

/* How many of n bytes of the payload, from offset at on, belong to a message, and which is the
 * first. */
static size_t find_data(const struct session *session, size_t at, size_t n, size_t *from_out)
{
    size_t begin = is_padded(session) ? 1 : 0, end = session->frame.length;
    if (is_padded(session))
        end = end > session->n_padding ? end - session->n_padding : 0;
    size_t from = at > begin ? at : begin;
    size_t until = at + n < end ? at + n : end;
    *from_out = from - at;
    return until > from ? until - from : 0;
}

/* A DATA frame without bytes. The end of a stream is not counted as empty. */
static void pay_empty(struct session *session, uint64_t now_ns)
{
    if (!(session->frame.flags & FRAME_FLAG_END_STREAM))
        session_pay_control(session, now_ns);
}

void session_begin_data(struct session *session, uint64_t now_ns)
{
    session->n_padding = 0;
    if (session->frame.length == 0)
        pay_empty(session, now_ns);
}

/* The withheld bytes may fit into a first window now. */
static void look_again(struct session *session, struct open_stream *stream)
{
    struct request_rooms rooms = session_rooms(session);
    if (request_window_may_grant(&stream->window, &rooms))
        rooms.all->has_freed = true;
}

void session_take_data(struct session *session, const uint8_t *bytes, size_t n, uint64_t now_ns,
                       struct session_event *event)
{
    assert(n > 0 && session->client.n_left + n <= session->frame.length);
    size_t at = session->frame.length - session->client.n_left - n;
    if (is_padded(session) && at == 0) {
        session->n_padding = bytes[0];
        if (session->frame.length <= 1u + session->n_padding)
            pay_empty(session, now_ns);
    }
    struct open_stream *stream = open_streams_find(&session->streams, session->frame.stream);
    if (!stream)
        return;
    size_t from;
    size_t n_data = find_data(session, at, n, &from);
    if (n_data > 0)
        stream->heard_ns = now_ns;
    request_window_hear(&stream->window, bytes + from, n_data);
    request_window_hear_padding(&stream->window, n - n_data);
    if (request_window_is_broken(&stream->window))
        session_set_close(session, RELAY_LIMIT_PROTOCOL, FRAME_FLOW_CONTROL_ERROR, event);
    else if (stream->window.withheld > 0)
        look_again(session, stream);
}
