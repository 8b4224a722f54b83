#include "api/http/http_connection.h"

#include "base/clock.h"

#include <assert.h>
#include <event2/buffer.h>
#include <event2/event.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_NS           NS_PER_S
#define PEEK_NS             NS_PER_S
#define LOG_FAILURES_NS     (10 * NS_PER_S)
#define TURN_STEPS          32 /* of one connection, before it is others' turn */
#define RETRY_AFTER_S       1
#define KERNEL_UNSENT_BYTES (128 << 10)
#define TRIM_AFTER_S        1

void http_connection_count(const struct http_connection *connection, enum http_limit limit)
{
    if (connection->common->metrics)
        counter_add(connection->common->metrics->struck[limit], 1);
}

void http_connection_count_answer(const struct http_connection *connection, unsigned code)
{
    assert(code >= 200 && code <= 599);
    if (connection->common->metrics)
        counter_add(connection->common->metrics->answers[code / 100 - 1], 1);
}

void http_connection_enter(struct http_connection *connection, enum http_phase phase,
                           uint64_t limit_ns)
{
    connection->phase = phase;
    connection->since_ns = clock_now_ns();
    connection->due_ns = limit_ns ? connection->since_ns + limit_ns : DEADLINE_NONE;
    connection->body_due_ns = DEADLINE_NONE;
}

/* ---- the end of an exchange ---- */

void http_connection_leave_exchange(struct http_connection *connection, enum status why)
{
    struct http_exchange *exchange = connection->exchange;
    struct http_common *common = connection->common;
    unsigned code;
    assert(exchange->connection == connection);
    if (connection->is_running) {
        common->n_running--;
        connection->address->n_streams--;
        if (common->metrics)
            gauge_add(common->metrics->running, -1);
    }
    connection->is_running = false;
    connection->address->room.bytes -= connection->body_counted;
    connection->body_counted = 0;
    connection->exchange = NULL;
    bool has_handler = connection->phase != HTTP_BODY_COMES;
    why = http_exchange_leave(exchange, why, &code);
    if (why == STATUS_OK)
        http_connection_count_answer(connection, code);
    else if (common->metrics)
        counter_add(code ? common->metrics->cut : common->metrics->unanswered, 1);
    if (!has_handler)
        http_exchange_release(exchange);
}

static void flush_last(struct http_connection *connection)
{
    http_connection_write(connection);
    if (connection->is_over || evbuffer_get_length(connection->wire) > 0)
        return;
    (void)shutdown(connection->fd, SHUT_WR);
    connection->is_over = connection->has_ended;
    http_connection_enter(connection, HTTP_LINGERING, LINGER_NS);
}

void http_connection_say_last(struct http_connection *connection, bool is_clean)
{
    evbuffer_drain(connection->in, evbuffer_get_length(connection->in));
    if (connection->link && is_clean) {
        tls_link_end(connection->link);
        http_connection_put_link_output(connection, connection->link);
    }
    http_connection_enter(connection, HTTP_FLUSHING, 0);
    flush_last(connection);
}

static void finish_answer(struct http_connection *connection, bool closes)
{
    http_connection_leave_exchange(connection, STATUS_OK);
    if (closes || connection->has_ended || connection->common->is_draining)
        http_connection_say_last(connection, true);
    else
        http_connection_enter(connection, HTTP_IDLE, connection->common->limits.idle_ns);
}

/* The client sees that there should have been more. */
static void finish_cut(struct http_connection *connection)
{
    bool is_chunked = connection->exchange->is_chunked;
    http_connection_leave_exchange(connection, STATUS_CANCELLED);
    if (is_chunked) {
        http_connection_say_last(connection, false);
        return;
    }
    connection->resets = true;
    connection->is_over = true;
}

/* ---- what is sent ---- */

static bool take_output(struct http_connection *connection, struct http_output *output_out)
{
    struct evbuffer *from = evbuffer_new();
    if (!from) {
        connection->is_over = true;
        return false;
    }
    http_exchange_take_output(connection->exchange, from, HTTP_WIRE_BYTES, output_out);
    bool has_some = evbuffer_get_length(from) > 0;
    if (has_some) {
        connection->quiet_ns = DEADLINE_NONE; /* from now on, as settle sets it */
        http_connection_put(connection, from);
    }
    evbuffer_free(from);
    if (has_some && !connection->is_over)
        http_connection_write(connection);
    return has_some;
}

static void resume_later(struct http_connection *connection)
{
    const struct timeval now = {0};
    (void)event_add(connection->resume, &now);
}

void http_connection_pump(struct http_connection *connection)
{
    struct http_output output = {.is_all = false};
    if (connection->phase != HTTP_ANSWERING)
        return;
    for (int i = 0; i < TURN_STEPS; i++) {
        if (connection->is_over || evbuffer_get_length(connection->wire) >= HTTP_WIRE_BYTES)
            return;
        if (!take_output(connection, &output))
            break;
    }
    if (connection->is_over)
        return;
    if (output.is_killed) {
        if (http_exchange_end_status(connection->exchange) == STATUS_SLOW_READER)
            http_connection_count(connection, HTTP_LIMIT_UNSENT);
        connection->resets = connection->is_over = true;
        return;
    }
    if (evbuffer_get_length(connection->wire) > 0)
        return;
    if (!output.is_all)
        resume_later(connection);
    else if (output.place == HTTP_ANSWERED)
        finish_answer(connection, output.closes);
    else if (output.place == HTTP_CUT)
        finish_cut(connection);
}

void http_connection_refuse(struct http_connection *connection, unsigned code,
                            unsigned retry_after_s, const char *sentence)
{
    const struct http_error_answer answer = {
        .code = code, .retry_after_s = retry_after_s, .sentence = sentence, .closes = true};
    struct evbuffer *from = evbuffer_new();
    if (!from || !http_error_answer_write(from, &answer, connection->common->error_form)) {
        connection->is_over = true;
    } else {
        if (code == 400 || code == 501 || code == 505 || code == 417 || code == 411)
            http_connection_count(connection, HTTP_LIMIT_PROTOCOL);
        http_connection_count_answer(connection, code);
        http_connection_put(connection, from);
        http_connection_say_last(connection, true);
    }
    if (from)
        evbuffer_free(from);
}

void http_connection_refuse_body(struct http_connection *connection, unsigned code,
                                 unsigned retry_after_s, const char *sentence)
{
    assert(connection->phase == HTTP_BODY_COMES);
    struct http_exchange *exchange = connection->exchange;
    http_exchange_refuse_with(exchange, code, retry_after_s, NULL, sentence);
    http_connection_enter(connection, HTTP_ANSWERING, 0);
    http_exchange_release(exchange);
}

void http_connection_turn_away(struct http_connection *connection, enum http_limit limit)
{
    bool is_full = limit == HTTP_LIMIT_CONNECTIONS;
    assert(!connection->link);
    if (connection->handshake) { /* nothing can be said before it */
        connection->resets = connection->is_over = true;
        return;
    }
    http_connection_refuse(connection, is_full ? 503 : 429, RETRY_AFTER_S,
                           is_full ? "too many connections"
                                   : "too many connections of this address");
}

void http_connection_trim_later(struct http_common *common)
{
    const struct timeval wait = {.tv_sec = TRIM_AFTER_S};
    if (!evtimer_pending(common->trim, NULL))
        (void)event_add(common->trim, &wait);
}

/* ---- what comes ---- */

static void begin_head(struct http_connection *connection)
{
    const struct http_limits *limits = &connection->common->limits;
    connection->scan = (struct http_head_scan){.head_bytes_max = limits->head_bytes_max,
                                               .target_bytes_max = limits->target_bytes_max,
                                               .fields_max = limits->fields_max};
    connection->head_bytes = 0;
    http_connection_enter(connection, HTTP_HEAD_COMES, limits->head_ns);
}

/* Several requests at most: then it is others' turn. */
void http_connection_advance(struct http_connection *connection)
{
    for (int i = 0; i < TURN_STEPS && !connection->is_over; i++) {
        bool has_input = evbuffer_get_length(connection->in) > 0;
        if (connection->phase == HTTP_ANSWERING) {
            http_connection_pump(connection);
            if (connection->phase == HTTP_ANSWERING)
                return;
        } else if (!has_input) {
            return;
        } else if (connection->phase == HTTP_IDLE) {
            begin_head(connection);
        } else if (connection->phase == HTTP_HEAD_COMES) {
            http_connection_take_head(connection);
        } else if (connection->phase == HTTP_BODY_COMES) {
            http_connection_take_body(connection);
        } else {
            return;
        }
    }
    if (!connection->is_over)
        resume_later(connection);
}

/* ---- time ---- */

static uint64_t next_due(const struct http_connection *connection)
{
    uint64_t due_ns = clock_earlier(connection->due_ns, connection->reader_due_ns);
    due_ns = clock_earlier(due_ns, clock_earlier(connection->body_due_ns, connection->peek_ns));
    return clock_earlier(due_ns, connection->quiet_ns);
}

static void end_phase(struct http_connection *connection)
{
    switch (connection->phase) {
    case HTTP_HANDSHAKE:
        http_connection_count(connection, HTTP_LIMIT_HANDSHAKE_TIME);
        connection->is_over = true;
        break;
    case HTTP_IDLE:
        http_connection_count(connection, HTTP_LIMIT_IDLE_TIME);
        http_connection_say_last(connection, true);
        break;
    case HTTP_HEAD_COMES:
        http_connection_count(connection, HTTP_LIMIT_HEAD_TIME);
        http_connection_refuse(connection, 408, 0, "the head of the request did not come in time");
        break;
    case HTTP_BODY_COMES:
        http_connection_count(connection, HTTP_LIMIT_BODY_TIME);
        http_connection_refuse_body(connection, 408, 0,
                                    "the body of the request did not come in time");
        http_connection_advance(connection);
        break;
    default:
        connection->is_over = true;
        break;
    }
}

static void run_time(struct http_connection *connection, uint64_t now_ns)
{
    if (now_ns >= connection->reader_due_ns) {
        http_connection_count(connection, HTTP_LIMIT_SLOW_READER);
        if (connection->exchange)
            http_connection_leave_exchange(connection, STATUS_SLOW_READER);
        connection->resets = connection->is_over = true;
    } else if (now_ns >= clock_earlier(connection->due_ns, connection->body_due_ns)) {
        end_phase(connection);
    } else if (now_ns >= connection->peek_ns) {
        connection->peek_ns = now_ns + PEEK_NS;
        connection->is_over = http_connection_has_peer_left(connection) &&
                              !http_connection_may_still_read(connection);
    } else if (now_ns >= connection->quiet_ns) {
        connection->quiet_ns = DEADLINE_NONE;
        http_exchange_tell_quiet(connection->exchange);
    }
}

static void arm(struct http_connection *connection)
{
    uint64_t due_ns = next_due(connection);
    if (due_ns >= connection->armed_ns)
        return; /* it comes too early, and looks again */
    uint64_t now_ns = clock_now_ns();
    uint64_t wait_us = due_ns > now_ns ? (due_ns - now_ns) / NS_PER_US + 1 : 0;
    const struct timeval wait = {(time_t)(wait_us / 1000000), (suseconds_t)(wait_us % 1000000)};
    connection->armed_ns = due_ns;
    (void)event_add(connection->timer, &wait);
}

/* ---- events ---- */

static bool wants_to_read(const struct http_connection *connection)
{
    if (connection->is_computing || connection->has_ended || connection->phase == HTTP_FLUSHING)
        return false;
    return evbuffer_get_length(connection->in) == 0;
}

static void want(struct event *event, bool *is_on, bool should)
{
    if (*is_on == should)
        return;
    *is_on = should;
    (void)(should ? event_add(event, NULL) : event_del(event));
}

void http_connection_settle(struct http_connection *connection)
{
    if (connection->is_over) {
        http_connection_destroy(connection);
        return;
    }
    bool reads = wants_to_read(connection);
    want(connection->readable, &connection->is_reading, reads);
    want(connection->writable, &connection->is_writing, evbuffer_get_length(connection->wire) > 0);
    if (reads || connection->has_ended || connection->phase != HTTP_ANSWERING)
        connection->peek_ns = DEADLINE_NONE;
    else if (connection->peek_ns == DEADLINE_NONE)
        connection->peek_ns = clock_now_ns() + PEEK_NS;
    if (connection->phase != HTTP_ANSWERING)
        connection->quiet_ns = DEADLINE_NONE;
    else if (connection->quiet_ns == DEADLINE_NONE)
        connection->quiet_ns = clock_now_ns() + connection->common->limits.quiet_ns;
    arm(connection);
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
    struct http_connection *connection = arg;
    (void)fd, (void)what;
    http_connection_read(connection);
    if (!connection->is_over)
        http_connection_advance(connection);
    http_connection_settle(connection);
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
    struct http_connection *connection = arg;
    (void)fd, (void)what;
    if (connection->phase == HTTP_FLUSHING)
        flush_last(connection);
    else
        http_connection_write(connection);
    if (!connection->is_over)
        http_connection_advance(connection);
    http_connection_settle(connection);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    struct http_connection *connection = arg;
    (void)fd, (void)what;
    connection->armed_ns = DEADLINE_NONE;
    run_time(connection, clock_now_ns());
    http_connection_settle(connection);
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
    struct http_connection *connection = arg;
    (void)fd, (void)what;
    http_connection_advance(connection);
    http_connection_settle(connection);
}

/* ---- life ---- */

static enum status create_handshake(struct http_connection *connection)
{
    struct tls_link *link;
    TRY(tls_link_create(connection->common->tls, TLS_HTTP_1_1, &link));
    return handshake_create(link, connection, &connection->handshake);
}

static enum status create_parts(struct http_connection *connection)
{
    struct event_base *base = connection->common->base;
    connection->readable = event_new(base, connection->fd, EV_READ | EV_PERSIST, on_readable,
                                     connection);
    connection->writable = event_new(base, connection->fd, EV_WRITE | EV_PERSIST, on_writable,
                                     connection);
    connection->timer = evtimer_new(base, on_timer, connection);
    connection->resume = evtimer_new(base, on_resume, connection);
    connection->in = evbuffer_new();
    connection->wire = evbuffer_new();
    if (!connection->readable || !connection->writable || !connection->timer ||
        !connection->resume || !connection->in || !connection->wire)
        return STATUS_NO_MEMORY;
    return connection->common->tls ? create_handshake(connection) : STATUS_OK;
}

static void set_tcp(int fd, int level, int option, uint64_t value)
{
    const int number = value < INT_MAX ? (int)value : INT_MAX;
    (void)setsockopt(fd, level, option, &number, sizeof number);
}

/* What the kernel holds for a reader is no memory of ours, but somebody's; a slow one is seen sooner, too. And a client
 * that vanished without a word is noticed while nothing is sent, or only a little that the kernel has room for. */
static void instruct_kernel(int fd, const struct http_limits *limits)
{
    const uint64_t silence_s = (limits->keepalive_ns + NS_PER_S - 1) / NS_PER_S;
    set_tcp(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, KERNEL_UNSENT_BYTES);
    set_tcp(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, limits->slow_reader_ns / NS_PER_MS);
    set_tcp(fd, IPPROTO_TCP, TCP_KEEPIDLE, silence_s);
    set_tcp(fd, IPPROTO_TCP, TCP_KEEPINTVL, silence_s);
    set_tcp(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
}

enum status http_connection_create(struct http_common *common, int fd,
                                   struct address_entry *address, const struct sockaddr_storage *at,
                                   struct http_connection **connection_out)
{
    struct http_connection *connection = calloc(1, sizeof *connection);
    if (!connection) {
        address_book_leave(common->addresses, address);
        close(fd);
        return STATUS_NO_MEMORY;
    }
    *connection = (struct http_connection){.common = common,
                                           .fd = fd,
                                           .address = address,
                                           .reader_due_ns = DEADLINE_NONE,
                                           .body_due_ns = DEADLINE_NONE,
                                           .peek_ns = DEADLINE_NONE,
                                           .quiet_ns = DEADLINE_NONE,
                                           .armed_ns = DEADLINE_NONE};
    instruct_kernel(fd, &common->limits);
    network_peer_name(at, connection->peer.address, sizeof connection->peer.address);
    TAILQ_INSERT_TAIL(&common->connections, connection, link_in_port);
    common->n_connections++;
    if (common->metrics)
        gauge_add(common->metrics->connections, 1);
    enum status status = create_parts(connection);
    if (status != STATUS_OK) {
        http_connection_destroy(connection);
        return status;
    }
    if (common->tls)
        http_connection_enter(connection, HTTP_HANDSHAKE, common->limits.handshake_ns);
    else
        http_connection_enter(connection, HTTP_IDLE, common->limits.head_ns);
    *connection_out = connection;
    return STATUS_OK;
}

static void free_event(struct event *event)
{
    if (event)
        event_free(event);
}

static void free_buffer(struct evbuffer *buffer)
{
    if (buffer)
        evbuffer_free(buffer);
}

void http_connection_destroy(struct http_connection *connection)
{
    struct http_common *common = connection->common;
    if (connection->exchange)
        http_connection_leave_exchange(connection, STATUS_CANCELLED);
    if (connection->handshake)
        handshakes_forget(common->handshakes, connection->handshake);
    tls_link_destroy(connection->link);
    free_event(connection->readable);
    free_event(connection->writable);
    free_event(connection->timer);
    free_event(connection->resume);
    free_buffer(connection->in);
    free_buffer(connection->wire);
    free(connection->head);
    address_book_leave(common->addresses, connection->address);
    TAILQ_REMOVE(&common->connections, connection, link_in_port);
    assert(common->n_connections > 0);
    common->n_connections--;
    if (common->metrics)
        gauge_add(common->metrics->connections, -1);
    if (connection->resets)
        listener_refuse(connection->fd);
    else
        close(connection->fd);
    free(connection);
}

void http_connection_drain(struct http_connection *connection)
{
    if (connection->phase == HTTP_HANDSHAKE)
        connection->is_over = true;
    else if (connection->phase == HTTP_IDLE && evbuffer_get_length(connection->in) == 0)
        http_connection_say_last(connection, true);
}

unsigned http_connection_dispensable(const struct http_connection *connection)
{
    switch (connection->phase) {
    case HTTP_LINGERING:
        return HTTP_EASE_FREE;
    case HTTP_HANDSHAKE:
    case HTTP_IDLE:
    case HTTP_HEAD_COMES:
        return HTTP_EASE_IDLE;
    case HTTP_BODY_COMES:
    case HTTP_FLUSHING:
        return HTTP_EASE_BUSY;
    default:
        return 0;
    }
}
