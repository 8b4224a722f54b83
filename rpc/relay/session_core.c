/* session_core - the core's half of a session: the frames to the client, and which of them must wait. */
#include "base/clock.h"
#include "rpc/relay/session_parts.h"

#include <assert.h>

#define PAID_WINDOW_MAX (10000u * SESSION_WINDOW_COST)
#define PAID_PINGS_MAX  1000u

/* ---- the core's frames ---- */

static void on_core_head(struct session *session, const struct frame_head *head, uint64_t now_ns)
{
    struct open_stream *stream = open_streams_find(&session->streams, head->stream);
    uint8_t is = STREAM_ANSWERED;
    if (head->flags & FRAME_FLAG_END_STREAM)
        is |= STREAM_ANSWER_ENDED;
    switch (head->type) {
    case FRAME_DATA:
        session->paid_window_bytes += 2 * SESSION_WINDOW_COST + head->length;
        if (session->paid_window_bytes > PAID_WINDOW_MAX)
            session->paid_window_bytes = PAID_WINDOW_MAX;
        if (session->paid_pings < PAID_PINGS_MAX)
            session->paid_pings++;
        session->was_served = session->was_served || stream;
        session_mark(session, stream, is);
        break;
    case FRAME_HEADERS: /* without DATA they are a refusal */
        session->was_served = session->was_served || (stream && !(is & STREAM_ANSWER_ENDED));
        session_mark(session, stream, is);
        break;
    case FRAME_RST_STREAM:
        if (!stream)
            break;
        /* A reset before the end of the request: mostly the client has caused it. */
        session_pay_resets(session, 1, now_ns);
        turns_answer(&session->common->turns, &session->address->unanswered, &stream->asked_ns);
        session_remove_stream(session, stream);
        break;
    case FRAME_SETTINGS:
        if (head->flags & FRAME_FLAG_ACK)
            break;
        session->has_core_settings = true;
        if (session->n_settings_sent++ == 0) {
            session->settings_sent_ns = now_ns;
            session_set_due(session, now_ns + session->common->limits->settings_ns);
        }
        break;
    case FRAME_PING:
        if (!(head->flags & FRAME_FLAG_ACK) && session->n_pings_sent < PAID_PINGS_MAX)
            session->n_pings_sent++;
        break;
    default:
        break;
    }
}

/* True: the client does not get this frame now. */
static bool withholds(struct session *session, const struct frame_head *head, const uint8_t *frame,
                      uint64_t now_ns)
{
    if (head->length != FRAME_UPDATE_BYTES - FRAME_HEAD_BYTES)
        return false;
    struct open_stream *stream = open_streams_find(&session->streams, head->stream);
    if (!stream || stream->is & STREAM_REQUEST_ENDED)
        return false;
    struct request_rooms rooms = session_rooms(session);
    enum relay_limit limit = RELAY_N_LIMITS;
    bool passes = request_window_update(&stream->window, &rooms, frame_update_bytes(frame), now_ns,
                                        &limit);
    if (request_window_is_large(&stream->window))
        session_set_due(session, now_ns + session->common->limits->half_open_ns);
    if (passes)
        return false;
    if (limit != RELAY_N_LIMITS)
        session_count(session->common, limit);
    return true;
}

/* At a boundary with enough bytes: true if the frame is not forwarded. */
static bool skips(struct session *session, const uint8_t *frame, uint64_t now_ns,
                  struct session_event *event)
{
    struct frame_walker walker = {.n_left = 0};
    struct frame_head head;
    enum frame_step step;
    (void)frame_walk(&walker, frame, FRAME_HEAD_BYTES, &step, &head);
    bool is_hidden = head.type == FRAME_GOAWAY && session->common->is_quitting;
    if (!is_hidden &&
        !(head.type == FRAME_WINDOW_UPDATE && withholds(session, &head, frame, now_ns)))
        return false;
    event->kind = SESSION_SKIP;
    event->n_bytes = FRAME_HEAD_BYTES + head.length;
    return true;
}

size_t session_core(struct session *session, const uint8_t *bytes, size_t n, bool wants_boundary,
                    uint64_t now_ns, struct session_event *event_out)
{
    *event_out = (struct session_event){.kind = SESSION_NOTHING};
    size_t i = 0;
    while (i < n) {
        enum frame_step step;
        struct frame_head head = {0};
        if (frame_is_boundary(&session->core)) {
            if (wants_boundary || frame_missing(bytes + i, n - i) > 0)
                break;
            if (skips(session, bytes + i, now_ns, event_out))
                return i;
        }
        i += frame_walk(&session->core, bytes + i, n - i, &step, &head);
        if (step == FRAME_STEP_HEAD)
            on_core_head(session, &head, now_ns);
    }
    (void)session_must_pause(session, now_ns, event_out);
    return i;
}

/* ---- room for large requests ---- */

/* The longest-waiting stream for which there is room, or NULL. */
static struct open_stream *find_grantable(struct session *session)
{
    struct open_stream *found = NULL;
    struct request_rooms rooms = session_rooms(session);
    for (uint32_t i = 0; session->room.n_waiting > 0 && i < session->streams.n; i++) {
        struct open_stream *stream = &session->streams.streams[i];
        if (request_window_may_grant(&stream->window, &rooms) &&
            (!found || stream->window.withheld_ns < found->window.withheld_ns))
            found = stream;
    }
    return found;
}

uint64_t session_wants_room_ns(struct session *session)
{
    const struct open_stream *stream = find_grantable(session);
    return stream ? stream->window.withheld_ns : DEADLINE_NONE;
}

void session_grant(struct session *session, uint64_t now_ns)
{
    struct open_stream *stream = find_grantable(session);
    struct request_rooms rooms = session_rooms(session);
    if (!stream)
        return;
    if (stream->granted == 0)
        session->n_granted++;
    stream->granted += request_window_grant(&stream->window, &rooms);
    stream->heard_ns = now_ns; /* it was silent because it had to wait */
    session_set_due(session, now_ns + session->common->limits->half_open_ns);
}

bool session_take_granted(struct session *session, uint8_t out[FRAME_UPDATE_BYTES])
{
    for (uint32_t i = 0; session->n_granted > 0 && i < session->streams.n; i++) {
        struct open_stream *stream = &session->streams.streams[i];
        if (stream->granted == 0)
            continue;
        frame_put_update(out, stream->id, stream->granted);
        stream->granted = 0;
        session->n_granted--;
        return true;
    }
    assert(session->n_granted == 0);
    return false;
}
