#include "rpc/relay/session.h"

#include "base/clock.h"
#include "rpc/relay/session_parts.h"

#include <assert.h>

#define RESETS_STORE_S    2
#define RESETS_DEBT_S     8 /* of an address whose connections ended with open streams */
#define ALL_RESETS_DEBT_S 1 /* an honest client may have to wait so long because of an attacker */
#define CONTROLS_STORE_S  8
#define PINGS_STORE_S     10

void session_init(struct session *session, struct session_common *common,
                  struct address_entry *address, uint64_t now_ns)
{
    assert(address->n_connections > 0 && common->limits);
    *session = (struct session){
        .common = common,
        .address = address,
        .began_ns = now_ns,
        .called_ns = now_ns,
        .due_ns = now_ns + common->limits->handshake_ns,
    };
}

void session_count(const struct session_common *common, enum relay_limit limit)
{
    assert(limit < RELAY_N_LIMITS);
    if (common->metrics)
        counter_add(common->metrics->struck[limit], 1);
}

void session_set_due(struct session *session, uint64_t due_ns)
{
    if (due_ns < session->due_ns)
        session->due_ns = due_ns;
}

void session_set_close(struct session *session, enum relay_limit limit, enum frame_error error,
                       struct session_event *event)
{
    session_count(session->common, limit);
    *event = (struct session_event){.kind = SESSION_CLOSE, .limit = limit, .error = error};
}

/* ---- streams ---- */

static void count_half_open(struct session *session, int change)
{
    assert(change > 0 || (session->n_half_open > 0 && session->address->n_half_open > 0 &&
                          session->common->n_half_open > 0));
    bool had_any = session->address->n_half_open > 0;
    session->n_half_open += (uint32_t)change;
    session->address->n_half_open += (uint32_t)change;
    session->common->n_half_open += (uint32_t)change;
    if (had_any != (session->address->n_half_open > 0))
        session->common->n_half_open_addresses += had_any ? UINT32_MAX : 1;
}

struct request_rooms session_rooms(struct session *session)
{
    struct request_rooms rooms = {
        .limits = session->common->limits,
        .all = &session->common->room,
        .address = &session->address->room,
        .own = &session->room,
        .is_exempt = session->address->is_exempt,
    };
    return rooms;
}

void session_release_room(struct session *session, struct open_stream *stream)
{
    struct request_rooms rooms = session_rooms(session);
    request_window_release(&stream->window, &rooms);
}

static void forget_grant(struct session *session, struct open_stream *stream)
{
    assert(stream->granted == 0 || session->n_granted > 0);
    if (stream->granted > 0)
        session->n_granted--;
    stream->granted = 0;
}

void session_remove_stream(struct session *session, struct open_stream *stream)
{
    assert(session->address->n_streams > 0);
    assert(session->n_asked > 0 || !open_stream_is_asked(stream));
    session_release_room(session, stream);
    forget_grant(session, stream);
    if (open_stream_is_half(stream))
        count_half_open(session, -1);
    if (open_stream_is_asked(stream))
        session->n_asked--;
    session->address->n_streams--;
    open_streams_remove(&session->streams, stream);
    if (session->streams.n == 0 && !session_is_proven(session))
        session_set_due(session, session->called_ns + session->common->limits->unproven_ns);
}

/* stream may be NULL: over already. */
void session_mark(struct session *session, struct open_stream *stream, uint8_t is)
{
    if (!stream)
        return;
    bool was_half_open = open_stream_is_half(stream);
    bool was_asked = open_stream_is_asked(stream);
    stream->is |= is;
    if (was_asked != open_stream_is_asked(stream))
        session->n_asked += was_asked ? UINT32_MAX : 1;
    if (is & STREAM_ANSWERED) {
        session_release_room(session, stream);
        turns_answer(&session->common->turns, &session->address->unanswered, &stream->asked_ns);
    }
    if (was_half_open && !open_stream_is_half(stream))
        count_half_open(session, -1);
    if ((stream->is & STREAM_REQUEST_ENDED) && (stream->is & STREAM_ANSWER_ENDED))
        session_remove_stream(session, stream);
}

static void end_window(struct session *session, struct open_stream *stream, uint64_t now_ns)
{
    struct request_rooms rooms = session_rooms(session);
    forget_grant(session, stream);
    request_window_end(&stream->window, &rooms, now_ns);
    if (stream->window.reserved > 0)
        session_set_due(session, now_ns + REQUEST_TAKEN_NS);
}

/* stream may be NULL: over already. */
void session_end_request(struct session *session, struct open_stream *stream, uint64_t now_ns)
{
    if (stream && open_stream_is_half(stream)) {
        turns_ask(&session->common->turns, &session->address->unanswered, 1, now_ns);
        stream->asked_ns = now_ns;
    }
    if (stream)
        end_window(session, stream, now_ns);
    session_mark(session, stream, STREAM_REQUEST_ENDED);
}

void session_add_stream(struct session *session, const struct frame_head *head, uint64_t now_ns,
                        struct session_event *event)
{
    struct open_stream *stream = open_streams_add(&session->streams, head->stream);
    if (!stream) {
        session_set_close(session, RELAY_LIMIT_STREAMS, FRAME_INTERNAL_ERROR, event);
        return;
    }
    stream->opened_ns = stream->heard_ns = session->called_ns = now_ns;
    session->address->n_streams++;
    count_half_open(session, 1);
    if (head->flags & FRAME_FLAG_END_STREAM)
        session_end_request(session, stream, now_ns);
    else
        session_set_due(session, now_ns + session->common->limits->half_open_ns);
}

bool session_is_proven(const struct session *session)
{
    return session->was_served || session->n_asked > 0;
}

void session_leave(struct session *session)
{
    session->is_leaving = true;
    session->n_acks_to_leave = ++session->n_pings_sent;
}

bool session_has_left(const struct session *session)
{
    return session->is_leaving && session->n_acks_to_leave == 0 && session->streams.n == 0;
}

/* ---- budgets ---- */

static void pause_for(struct session *session, enum relay_limit limit, uint64_t wait_ns,
                      uint64_t now_ns)
{
    if (wait_ns == 0)
        return;
    session_count(session->common, limit);
    if (now_ns + wait_ns > session->pause_until_ns)
        session->pause_until_ns = now_ns + wait_ns;
}

void session_pay_resets(struct session *session, uint32_t n, uint64_t now_ns)
{
    const struct relay_limits *limits = session->common->limits;
    const struct budget_rate all = {limits->resets_per_s, RESETS_STORE_S, ALL_RESETS_DEBT_S};
    const struct budget_rate one = {limits->address_resets_per_s, RESETS_STORE_S, RESETS_DEBT_S};
    turns_ask(&session->common->turns, &session->address->unanswered, n, now_ns);
    if (session->address->is_exempt)
        return;
    pause_for(session, RELAY_LIMIT_ADDRESS_RESETS,
              budget_take(&session->address->resets, &one, n, now_ns), now_ns);
    pause_for(session, RELAY_LIMIT_RESETS, budget_take(&session->common->resets, &all, n, now_ns),
              now_ns);
}

void session_pay_control(struct session *session, uint64_t now_ns)
{
    const struct budget_rate rate = {session->common->limits->controls_per_s, CONTROLS_STORE_S, 1};
    pause_for(session, RELAY_LIMIT_CONTROLS, budget_take(&session->controls, &rate, 1, now_ns),
              now_ns);
}

void session_pay_ping(struct session *session, uint64_t now_ns)
{
    const struct budget_rate rate = {session->common->limits->pings_per_s, PINGS_STORE_S, 1};
    pause_for(session, RELAY_LIMIT_PINGS, budget_take(&session->pings, &rate, 1, now_ns), now_ns);
}

/* While there are too many resets, unproven connections wait before each new stream. */
void session_wait_for_others(struct session *session, uint64_t now_ns)
{
    const struct relay_limits *limits = session->common->limits;
    const struct budget_rate all = {limits->resets_per_s, RESETS_STORE_S, ALL_RESETS_DEBT_S};
    if (!session_is_proven(session) && !session->address->is_exempt)
        pause_for(session, RELAY_LIMIT_RESETS,
                  budget_take(&session->common->resets, &all, 0, now_ns), now_ns);
}

void session_finish(struct session *session, uint64_t now_ns)
{
    uint32_t n = session->streams.n;
    while (session->streams.n > 0)
        session_remove_stream(session, &session->streams.streams[session->streams.n - 1]);
    if (n > 0)
        session_pay_resets(session, n, now_ns);
    assert(session->n_half_open == 0 && session->n_asked == 0 && session->n_granted == 0);
    assert(session->room.bytes == 0 && session->room.n_waiting == 0);
    open_streams_finish(&session->streams);
}

/* ---- requests that must wait ---- */

bool session_may_reset(const struct session *session)
{
    return session->n_preface == FRAME_PREFACE_BYTES && session->has_settings &&
           frame_is_boundary(&session->client) && !session->is_in_headers;
}

bool session_must_pause(const struct session *session, uint64_t now_ns, struct session_event *event)
{
    if (event->kind == SESSION_NOTHING && session->pause_until_ns > now_ns) {
        event->kind = SESSION_PAUSE;
        event->until_ns = session->pause_until_ns;
    }
    return event->kind != SESSION_NOTHING;
}

bool session_must_wait(const struct session *session, uint64_t now_ns)
{
    return !session->address->is_exempt &&
           !turns_may_ask(&session->common->turns, &session->address->unanswered,
                          session->common->limits->unanswered_max, now_ns);
}
