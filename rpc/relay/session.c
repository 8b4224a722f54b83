#include "rpc/relay/session.h"

#include "base/clock.h"
#include "rpc/relay/session_parts.h"

#include <assert.h>
#include <string.h>

#define FRAME_BYTES_MAX   16384u /* of what is no DATA */
#define RESETS_STORE_S    2
#define RESETS_DEBT_S     8 /* of an address, whose connections ended with streams open */
#define ALL_RESETS_DEBT_S 1 /* as long as an honest client may have to wait for an attacker's */
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
static void session_end_request(struct session *session, struct open_stream *stream,
                                uint64_t now_ns)
{
    if (stream && open_stream_is_half(stream)) {
        turns_ask(&session->common->turns, &session->address->unanswered, 1, now_ns);
        stream->asked_ns = now_ns;
    }
    if (stream)
        end_window(session, stream, now_ns);
    session_mark(session, stream, STREAM_REQUEST_ENDED);
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

static void session_pay_ping(struct session *session, uint64_t now_ns)
{
    const struct budget_rate rate = {session->common->limits->pings_per_s, PINGS_STORE_S, 1};
    pause_for(session, RELAY_LIMIT_PINGS, budget_take(&session->pings, &rate, 1, now_ns), now_ns);
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

/* ---- the client's frames ---- */

/* What is full is full for who has an even share of it, at least one: a few addresses close it to nobody else. */
static bool has_half_open_share(const struct session *session)
{
    const struct session_common *common = session->common;
    uint32_t n = session->address->n_half_open;
    assert(n == 0 || common->n_half_open_addresses > 0);
    uint32_t n_addresses = common->n_half_open_addresses + (n == 0);
    return n > 0 && n >= common->limits->half_open_max / n_addresses;
}

/* The limit of an address or of all that a new stream meets, or RELAY_N_LIMITS. */
static enum relay_limit find_limit(const struct session *session, bool is_half)
{
    const struct relay_limits *limits = session->common->limits;
    const struct address_entry *address = session->address;
    if (is_half && session->common->n_half_open >= limits->half_open_max &&
        has_half_open_share(session))
        return RELAY_LIMIT_HALF_OPEN;
    if (address->is_exempt)
        return RELAY_N_LIMITS;
    if (address->n_streams >= limits->address_streams_max)
        return RELAY_LIMIT_ADDRESS_STREAMS;
    if (is_half && address->n_half_open >= limits->address_half_open_max)
        return RELAY_LIMIT_ADDRESS_HALF_OPEN;
    return RELAY_N_LIMITS;
}

static void session_add_stream(struct session *session, const struct frame_head *head,
                               uint64_t now_ns, struct session_event *event)
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

/* While more is cancelled than may be, who has shown nothing yet waits with each stream. */
static void session_wait_for_others(struct session *session, uint64_t now_ns)
{
    const struct relay_limits *limits = session->common->limits;
    const struct budget_rate all = {limits->resets_per_s, RESETS_STORE_S, ALL_RESETS_DEBT_S};
    if (!session_is_proven(session) && !session->address->is_exempt)
        pause_for(session, RELAY_LIMIT_RESETS,
                  budget_take(&session->common->resets, &all, 0, now_ns), now_ns);
}

static void open_stream(struct session *session, const struct frame_head *head, uint64_t now_ns,
                        struct session_event *event)
{
    session->last_stream = head->stream;
    if (session->streams.n >= session->common->limits->streams_max + SESSION_STREAMS_SLACK) {
        session_set_close(session, RELAY_LIMIT_STREAMS, FRAME_ENHANCE_YOUR_CALM, event);
        return;
    }
    enum relay_limit limit = find_limit(session, !(head->flags & FRAME_FLAG_END_STREAM));
    session->is_refused = limit != RELAY_N_LIMITS;
    session->refused_by = limit;
    session_wait_for_others(session, now_ns);
    if (!session->is_refused)
        session_add_stream(session, head, now_ns, event);
}

static void on_headers(struct session *session, const struct frame_head *head, uint64_t now_ns,
                       struct session_event *event)
{
    session->is_in_headers = true;
    session->is_refused = false;
    session->header_bytes = 0;
    session->n_header_frames = 0;
    if (head->stream % 2 == 0) {
        session_set_close(session, RELAY_LIMIT_PROTOCOL, FRAME_PROTOCOL_ERROR, event);
        return;
    }
    if (head->stream > session->last_stream) {
        open_stream(session, head, now_ns, event);
        return;
    }
    session_pay_control(session, now_ns);
    if (head->flags & FRAME_FLAG_END_STREAM)
        session_end_request(session, open_streams_find(&session->streams, head->stream), now_ns);
}

/* Each frame of a list of headers. */
static void count_headers(struct session *session, const struct frame_head *head,
                          struct session_event *event)
{
    const struct relay_limits *limits = session->common->limits;
    session->n_header_frames++;
    /* Lengths are of 24 bits and frames are few: no overflow. */
    session->header_bytes += head->length;
    if (session->header_bytes > limits->header_bytes_max)
        session_set_close(session, RELAY_LIMIT_HEADER_BYTES, FRAME_ENHANCE_YOUR_CALM, event);
    else if (session->n_header_frames > limits->header_frames_max)
        session_set_close(session, RELAY_LIMIT_HEADER_FRAMES, FRAME_ENHANCE_YOUR_CALM, event);
}

static void on_reset(struct session *session, const struct frame_head *head, uint64_t now_ns)
{
    struct open_stream *stream = open_streams_find(&session->streams, head->stream);
    if (stream)
        session_remove_stream(session, stream);
    session_pay_resets(session, 1, now_ns);
}

static void on_settings(struct session *session, const struct frame_head *head, uint64_t now_ns)
{
    if (!(head->flags & FRAME_FLAG_ACK) || session->n_settings_sent == 0) {
        session_pay_control(session, now_ns);
        return;
    }
    session->n_settings_sent--;
    session->settings_sent_ns = now_ns; /* of the next, which has waited for this one */
}

static void on_ping(struct session *session, const struct frame_head *head, uint64_t now_ns)
{
    if (head->flags & FRAME_FLAG_ACK && session->n_acks_to_leave > 0)
        session->n_acks_to_leave--;
    uint32_t *paid = head->flags & FRAME_FLAG_ACK ? &session->n_pings_sent : &session->paid_pings;
    if (*paid > 0)
        (*paid)--;
    else
        session_pay_ping(session, now_ns);
}

static void on_window_update(struct session *session, uint64_t now_ns)
{
    session->update_bits = 0;
    if (session->paid_window_bytes >= SESSION_WINDOW_COST)
        session->paid_window_bytes -= SESSION_WINDOW_COST;
    else
        session_pay_control(session, now_ns);
}

/* What holds of any frame; false: event says how it ends. */
static bool check_frame(struct session *session, const struct frame_head *head,
                        struct session_event *event)
{
    bool continues = head->type == FRAME_CONTINUATION;
    bool is_headers = continues || head->type == FRAME_HEADERS;
    if (session->is_in_headers != continues || (continues && head->stream != session->frame.stream))
        session_set_close(session, RELAY_LIMIT_PROTOCOL, FRAME_PROTOCOL_ERROR, event);
    else if (!session->has_settings &&
             (head->type != FRAME_SETTINGS || (head->flags & FRAME_FLAG_ACK)))
        session_set_close(session, RELAY_LIMIT_PROTOCOL, FRAME_PROTOCOL_ERROR, event);
    else if (head->type != FRAME_DATA && !is_headers && head->length > FRAME_BYTES_MAX)
        session_set_close(session, RELAY_LIMIT_PROTOCOL, FRAME_SIZE_ERROR, event);
    return event->kind == SESSION_NOTHING;
}

static void on_client_head(struct session *session, const struct frame_head *head, uint64_t now_ns,
                           struct session_event *event)
{
    bool is_ok = check_frame(session, head, event);
    session->frame = *head;
    if (!is_ok)
        return;
    bool is_first = !session->has_settings;
    session->has_settings = true;
    switch (head->type) {
    case FRAME_DATA:
        session_begin_data(session, now_ns);
        break;
    case FRAME_HEADERS:
        on_headers(session, head, now_ns, event);
        break;
    case FRAME_CONTINUATION:
        break;
    case FRAME_RST_STREAM:
        on_reset(session, head, now_ns);
        break;
    case FRAME_SETTINGS:
        if (!is_first)
            on_settings(session, head, now_ns);
        break;
    case FRAME_PING:
        on_ping(session, head, now_ns);
        break;
    case FRAME_WINDOW_UPDATE:
        on_window_update(session, now_ns);
        break;
    default:
        session_pay_control(session, now_ns);
        break;
    }
    if (session->is_in_headers && event->kind == SESSION_NOTHING)
        count_headers(session, head, event);
}

/* A list of headers is whole. */
static void end_headers(struct session *session, uint64_t now_ns, struct session_event *event)
{
    session->is_in_headers = false;
    if (!session->is_refused)
        return;
    session->is_refused = false;
    session_count(session->common, session->refused_by);
    session_pay_resets(session, 1, now_ns);
    *event = (struct session_event){.kind = SESSION_RESET,
                                    .limit = session->refused_by,
                                    .error = FRAME_REFUSED_STREAM,
                                    .stream = session->last_stream};
}

/* A WINDOW_UPDATE of nothing has come, to a stream that is or was. */
static void reset_updated(struct session *session, uint64_t now_ns, struct session_event *event)
{
    struct open_stream *stream = open_streams_find(&session->streams, session->frame.stream);
    session_pay_resets(session, 1, now_ns);
    if (stream)
        session_remove_stream(session, stream);
    *event = (struct session_event){.kind = SESSION_RESET,
                                    .limit = RELAY_LIMIT_PROTOCOL,
                                    .error = FRAME_PROTOCOL_ERROR,
                                    .stream = session->frame.stream,
                                    .allows_one = true};
    session_count(session->common, RELAY_LIMIT_PROTOCOL);
}

static bool is_update_of_nothing(const struct session *session)
{
    const struct frame_head *frame = &session->frame;
    return frame->type == FRAME_WINDOW_UPDATE && session->update_bits == 0 &&
           frame->length == FRAME_UPDATE_BYTES - FRAME_HEAD_BYTES && frame->stream > 0 &&
           frame->stream <= session->last_stream;
}

static void on_client_frame_end(struct session *session, uint64_t now_ns,
                                struct session_event *event)
{
    const struct frame_head *frame = &session->frame;
    if (is_update_of_nothing(session))
        reset_updated(session, now_ns, event);
    if (session->is_in_headers && (frame->flags & FRAME_FLAG_END_HEADERS))
        end_headers(session, now_ns, event);
    if (frame->type == FRAME_DATA && (frame->flags & FRAME_FLAG_END_STREAM))
        session_end_request(session, open_streams_find(&session->streams, frame->stream), now_ns);
}

/* Part of a payload has come. */
static void on_client_bytes(struct session *session, const uint8_t *bytes, size_t n,
                            uint64_t now_ns, struct session_event *event)
{
    bool is_first = session->client.n_left + n == session->frame.length;
    if (session->frame.type == FRAME_WINDOW_UPDATE)
        for (size_t i = 0; i < n; i++) /* the first bit means nothing */
            session->update_bits |= is_first && i == 0 ? bytes[i] & 0x7f : bytes[i];
    if (session->frame.type != FRAME_DATA)
        return;
    session_take_data(session, bytes, n, now_ns, event);
    if (session->frame_began_ns) /* slow is allowed, silent is not */
        session->frame_began_ns = now_ns;
}

/* A method, in capitals, and a blank. */
static bool is_http1(const uint8_t *bytes, size_t n)
{
    size_t i = 0;
    while (i < n && bytes[i] >= 'A' && bytes[i] <= 'Z')
        i++;
    return i >= 3 && i < n && bytes[i] == ' ';
}

static size_t take_preface(struct session *session, const uint8_t *bytes, size_t n,
                           struct session_event *event)
{
    size_t n_wanted = FRAME_PREFACE_BYTES - session->n_preface;
    size_t n_taken = n < n_wanted ? n : n_wanted;
    if (memcmp(bytes, &FRAME_PREFACE[session->n_preface], n_taken) != 0) {
        session->is_http1 = session->n_preface == 0 && is_http1(bytes, n);
        session_set_close(session, RELAY_LIMIT_PROTOCOL, FRAME_NO_ERROR, event);
    } else if (n_taken == n_wanted) {
        event->kind = SESSION_BEGIN;
    }
    session->n_preface = (uint8_t)(session->n_preface + n_taken);
    return n_taken;
}

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

/* Before a frame; within a list of headers it may be none that waits. */
static bool is_held(const struct session *session, uint64_t now_ns, struct session_event *event)
{
    if (!frame_is_boundary(&session->client) || session->is_in_headers ||
        !session_must_wait(session, now_ns))
        return false;
    session_count(session->common, RELAY_LIMIT_UNANSWERED);
    event->kind = SESSION_WAIT;
    return true;
}

static size_t walk_client(struct session *session, const uint8_t *bytes, size_t n, uint64_t now_ns,
                          struct session_event *event)
{
    for (size_t i = 0; i < n;) {
        enum frame_step step;
        struct frame_head head = {0};
        if (is_held(session, now_ns, event))
            return i;
        size_t n_walked = frame_walk(&session->client, bytes + i, n - i, &step, &head);
        if (step == FRAME_STEP_HEAD)
            on_client_head(session, &head, now_ns, event);
        else if (session->client.n_head == 0)
            on_client_bytes(session, bytes + i, n_walked, now_ns, event);
        i += n_walked;
        if (event->kind != SESSION_NOTHING)
            return i;
        if (step != FRAME_STEP_PART && frame_is_boundary(&session->client)) {
            on_client_frame_end(session, now_ns, event);
            if (session_must_pause(session, now_ns, event))
                return i;
        }
    }
    return n;
}

size_t session_client(struct session *session, const uint8_t *bytes, size_t n, uint64_t now_ns,
                      struct session_event *event_out)
{
    *event_out = (struct session_event){.kind = SESSION_NOTHING};
    if (n == 0 || session_must_pause(session, now_ns, event_out))
        return 0;
    if (session->n_preface < FRAME_PREFACE_BYTES)
        return take_preface(session, bytes, n, event_out);
    size_t n_walked = walk_client(session, bytes, n, now_ns, event_out);
    if (frame_is_boundary(&session->client) && !session->is_in_headers) {
        session->frame_began_ns = 0;
    } else if (session->frame_began_ns == 0) {
        session->frame_began_ns = now_ns;
        session_set_due(session, now_ns + session->common->limits->frame_ns);
    }
    return n_walked;
}
