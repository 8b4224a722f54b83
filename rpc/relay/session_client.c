/* session_client - the client's half of a session: checks its frames one after the other. session_data.c has the bytes
 * of its requests. */
#include "base/clock.h"
#include "rpc/relay/session_parts.h"

#include <assert.h>
#include <string.h>

#define FRAME_BYTES_MAX 16384u /* of frames other than DATA */

/* A full limit refuses only addresses that have an even share or more (at least one), so that a few addresses
 * cannot use it all up. */
static bool has_half_open_share(const struct session *session)
{
    const struct session_common *common = session->common;
    uint32_t n = session->address->n_half_open;
    assert(n == 0 || common->n_half_open_addresses > 0);
    uint32_t n_addresses = common->n_half_open_addresses + (n == 0);
    return n > 0 && n >= common->limits->half_open_max / n_addresses;
}

/* The limit of an address or of all that a new stream exceeds, or RELAY_N_LIMITS. */
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

/* Called for each frame of a header list. */
static void count_headers(struct session *session, const struct frame_head *head,
                          struct session_event *event)
{
    const struct relay_limits *limits = session->common->limits;
    session->n_header_frames++;
    /* Lengths have 24 bits and the frames are few: no overflow. */
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
    session->settings_sent_ns = now_ns; /* the next SETTINGS waited for this one */
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

/* Checks any frame; false: event says how the connection ends. */
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

/* A header list is complete. */
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

/* A WINDOW_UPDATE of 0 has arrived, for an open or an ended stream. */
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

/* A part of a payload has arrived. */
static void on_client_bytes(struct session *session, const uint8_t *bytes, size_t n,
                            uint64_t now_ns, struct session_event *event)
{
    bool is_first = session->client.n_left + n == session->frame.length;
    if (session->frame.type == FRAME_WINDOW_UPDATE)
        for (size_t i = 0; i < n; i++) /* the first bit is reserved */
            session->update_bits |= is_first && i == 0 ? bytes[i] & 0x7f : bytes[i];
    if (session->frame.type != FRAME_DATA)
        return;
    session_take_data(session, bytes, n, now_ns, event);
    if (session->frame_began_ns) /* a slow client is allowed, a silent one is not */
        session->frame_began_ns = now_ns;
}

/* Whether the bytes are an HTTP/1 method in capitals and a blank. */
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

/* Called before a frame. Inside a header list the client must not wait. */
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
