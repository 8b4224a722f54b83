/* http_connection_request - a connection's next request: its head, its body, who answers it. */
#include "api/http/http_connection.h"
#include "base/clock.h"

#include <assert.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_ROOM     1024u
#define RETRY_AFTER_S 1

/* ---- a request that may begin ---- */

/* Answers where there is none for it. */
static void choose_route(struct http_connection *connection)
{
    struct http_exchange *exchange = connection->exchange;
    const struct http_common *common = connection->common;
    unsigned verbs;
    char allow[HTTP_ALLOW_BYTES], sentence[160];
    connection->route = http_route_find(common->routes, common->n_routes, exchange->head.verb,
                                        exchange->head.path, &exchange->path_rest, &verbs);
    if (connection->route)
        return;
    if (verbs == 0) {
        snprintf(sentence, sizeof sentence, "there is nothing at the path \"%.100s\"",
                 exchange->head.path);
        http_exchange_refuse_with(exchange, 404, 0, NULL, sentence);
        return;
    }
    http_route_list_verbs(verbs, allow);
    if (exchange->head.verb == HTTP_VERB_OPTIONS) {
        const struct http_field field = {"Allow", allow};
        const struct http_answer_head head = {.code = 204, .fields = &field, .n_fields = 1};
        enum status status = http_exchange_reply(exchange, &head, "", 0);
        (void)status; /* without memory it is cut */
        return;
    }
    snprintf(sentence, sizeof sentence, "this path takes %s", allow);
    http_exchange_refuse_with(exchange, 405, 0, allow, sentence);
}

static void check_limits(struct http_connection *connection)
{
    const struct http_limits *limits = &connection->common->limits;
    const struct address_entry *address = connection->address;
    if (connection->common->n_running >= limits->requests_max) {
        http_connection_count(connection, HTTP_LIMIT_REQUESTS);
        http_exchange_refuse_with(connection->exchange, 503, RETRY_AFTER_S, NULL,
                                  "too many requests are being answered");
    } else if (!address->is_exempt && address->n_streams >= limits->address_requests_max) {
        http_connection_count(connection, HTTP_LIMIT_ADDRESS_REQUESTS);
        http_exchange_refuse_with(connection->exchange, 429, RETRY_AFTER_S, NULL,
                                  "too many requests of this address are being answered");
    }
}

static void ask_doorkeeper(struct http_connection *connection)
{
    const struct http_doorkeeper *doorkeeper = connection->common->doorkeeper;
    struct http_exchange *exchange = connection->exchange;
    if (!doorkeeper)
        return;
    bool may_enter = doorkeeper->enter(doorkeeper->arg, exchange, &exchange->pass);
    assert(may_enter != http_exchange_is_answered(exchange));
    (void)may_enter;
}

/* The body is whole. */
static void dispatch(struct http_connection *connection)
{
    struct http_exchange *exchange = connection->exchange;
    const struct http_route *route = connection->route;
    http_exchange_set_closes(exchange, exchange->head.closes);
    http_connection_enter(connection, HTTP_ANSWERING, 0);
    connection->is_running = true;
    connection->common->n_running++;
    connection->address->n_streams++;
    if (connection->common->metrics)
        gauge_add(connection->common->metrics->running, 1);
    route->handle(route->arg, exchange);
    http_exchange_release(exchange);
}

static void answer_refused(struct http_connection *connection)
{
    connection->route = NULL;
    http_connection_enter(connection, HTTP_ANSWERING, 0);
    http_exchange_release(connection->exchange);
}

static void invite_body(struct http_connection *connection)
{
    static const char CONTINUE[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const struct http_limits *limits = &connection->common->limits;
    http_connection_enter(connection, HTTP_BODY_COMES, limits->body_gap_ns);
    connection->body_due_ns = connection->since_ns + limits->body_ns;
    if (!connection->exchange->head.expects_continue || evbuffer_get_length(connection->in) > 0)
        return;
    struct evbuffer *line = evbuffer_new();
    if (!line || evbuffer_add(line, CONTINUE, sizeof CONTINUE - 1) != 0)
        connection->is_over = true;
    else
        http_connection_put(connection, line);
    if (line)
        evbuffer_free(line);
    if (!connection->is_over)
        http_connection_write(connection);
}

static void begin(struct http_connection *connection)
{
    struct http_exchange *exchange = connection->exchange;
    bool has_body = exchange->head.framing != HTTP_NO_BODY;
    http_exchange_set_closes(exchange, exchange->head.closes || has_body);
    ask_doorkeeper(connection);
    if (!http_exchange_is_answered(exchange))
        choose_route(connection);
    if (!http_exchange_is_answered(exchange))
        check_limits(connection);
    if (http_exchange_is_answered(exchange))
        answer_refused(connection);
    else if (has_body)
        invite_body(connection);
    else
        dispatch(connection);
}

/* What the head says of the body. Returns 0, or the code of the refusal. */
static unsigned judge_body(struct http_connection *connection, const struct http_head *head,
                           struct error *error)
{
    const struct http_limits *limits = &connection->common->limits;
    if (head->lacks_length && head->verb == HTTP_VERB_POST) {
        error_write(error, "a POST needs Content-Length or Transfer-Encoding: chunked");
        return 411;
    }
    unsigned code = http_body_init(&connection->body, head, limits->body_bytes_max,
                                   limits->head_bytes_max, error);
    if (code)
        http_connection_count(connection, HTTP_LIMIT_BODY);
    return code;
}

static void take_whole_head(struct http_connection *connection)
{
    struct http_head head = {.verb = HTTP_VERB_OTHER};
    struct error error = {""};
    connection->head[connection->head_bytes] = '\0';
    unsigned code = http_head_parse(connection->head, connection->head_bytes, &head, &error);
    if (code == 0)
        code = judge_body(connection, &head, &error);
    if (code) {
        http_head_finish(&head);
        http_connection_refuse(connection, code, code == 503 ? RETRY_AFTER_S : 0, error.text);
        return;
    }
    if (http_exchange_create(connection->common->outbox, connection, &head, connection->head,
                             &connection->peer, &connection->exchange) != STATUS_OK) {
        http_head_finish(&head);
        http_connection_refuse(connection, 503, RETRY_AFTER_S, status_text(STATUS_NO_MEMORY));
        return;
    }
    connection->head = NULL;
    connection->head_bytes = connection->head_room = 0;
    begin(connection);
}

/* Others may have come meanwhile. */
static void dispatch_after_body(struct http_connection *connection)
{
    http_exchange_set_closes(connection->exchange, connection->exchange->head.closes);
    check_limits(connection);
    if (http_exchange_is_answered(connection->exchange))
        answer_refused(connection);
    else
        dispatch(connection);
}

/* ---- bytes ---- */

static bool add_to_head(struct http_connection *connection, const uint8_t *bytes, size_t n)
{
    size_t needed = connection->head_bytes + n + 1;
    assert(needed <= connection->common->limits.head_bytes_max + 2u);
    if (needed > connection->head_room) {
        size_t room = connection->head_room ? connection->head_room : HEAD_ROOM;
        while (room < needed)
            room *= 2;
        char *grown = realloc(connection->head, room);
        if (!grown)
            return false;
        connection->head = grown;
        connection->head_room = room;
    }
    memcpy(connection->head + connection->head_bytes, bytes, n);
    connection->head_bytes += n;
    return true;
}

/* The first bytes of `in` that lie together. */
static const uint8_t *peek(struct http_connection *connection, size_t *n_out)
{
    *n_out = evbuffer_get_contiguous_space(connection->in);
    return evbuffer_pullup(connection->in, (ev_ssize_t)*n_out);
}

void http_connection_take_head(struct http_connection *connection)
{
    struct error error = {""};
    size_t n, n_used;
    bool is_whole;
    const uint8_t *bytes = peek(connection, &n);
    unsigned code = http_head_scan(&connection->scan, bytes, n, &n_used, &is_whole, &error);
    if (code == 414 || code == 431)
        http_connection_count(connection, HTTP_LIMIT_HEAD);
    if (code == 0 && !add_to_head(connection, bytes, n_used)) {
        code = 503;
        error_write(&error, "%s", status_text(STATUS_NO_MEMORY));
    }
    evbuffer_drain(connection->in, n_used);
    if (code)
        http_connection_refuse(connection, code, code == 503 ? RETRY_AFTER_S : 0, error.text);
    else if (is_whole)
        take_whole_head(connection);
}

/* Counts what the exchange took for its body in its address. False: that has too much, or there is no room for all. */
static bool has_room(struct http_connection *connection, enum status added)
{
    struct address_entry *address = connection->address;
    const struct http_limits *limits = &connection->common->limits;
    uint64_t counted = connection->exchange->body_counted;
    if (counted && http_outbox_body_bytes(connection->common->outbox) >= HTTP_TRIM_BYTES)
        http_connection_trim_later(connection->common);
    address->room.bytes += counted - connection->body_counted;
    connection->body_counted = counted;
    if (added == STATUS_OK &&
        (address->is_exempt || address->room.bytes <= limits->address_bodies_bytes_max))
        return true;
    bool is_address = added == STATUS_OK;
    http_connection_count(connection, is_address ? HTTP_LIMIT_ADDRESS_BODIES : HTTP_LIMIT_BODIES);
    http_connection_refuse_body(connection, is_address ? 429 : 503, RETRY_AFTER_S,
                                is_address ? "too many bytes of requests of this address"
                                           : "no room for the body of the request");
    return false;
}

void http_connection_take_body(struct http_connection *connection)
{
    struct error error = {""};
    size_t n, n_used, n_data;
    const uint8_t *data;
    const uint8_t *bytes = peek(connection, &n);
    unsigned code = http_body_take(&connection->body, bytes, n, &n_used, &data, &n_data, &error);
    enum status added = STATUS_OK;
    if (n_data > 0)
        added = http_exchange_add_body(connection->exchange, data, n_data);
    evbuffer_drain(connection->in, n_used);
    connection->since_ns = clock_now_ns();
    connection->due_ns = connection->since_ns + connection->common->limits.body_gap_ns;
    if (!has_room(connection, added))
        return;
    if (code == 413)
        http_connection_count(connection, HTTP_LIMIT_BODY);
    if (code)
        http_connection_refuse_body(connection, code, 0, error.text);
    else if (connection->body.is_whole)
        dispatch_after_body(connection);
}
