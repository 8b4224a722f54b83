#include "api/http/http_exchange.h"

#include "api/http/http_exchange_state.h"

#include <assert.h>
#include <event2/buffer.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CHUNK_COST_BYTES 16 /* of an event beside its bytes */

/* ---- life ---- */

enum status http_exchange_create(struct http_outbox *outbox, struct http_connection *connection,
                                 struct http_head *head, char *head_text,
                                 const struct rpc_peer *peer, struct http_exchange **exchange_out)
{
    struct http_exchange *exchange = calloc(1, sizeof *exchange);
    struct evbuffer *out = evbuffer_new();
    if (!exchange || !out) {
        if (out)
            evbuffer_free(out);
        free(exchange);
        return STATUS_NO_MEMORY;
    }
    *exchange = (struct http_exchange){
        .outbox = http_outbox_share(outbox),
        .connection = connection,
        .head = *head,
        .head_text = head_text,
        .peer = *peer,
        .path_rest = "",
        .n_holders = 1,
        .has_connection = true,
        .closes = head->closes,
        .out = out,
    };
    pthread_mutex_init(&exchange->lock, NULL);
    *exchange_out = exchange;
    return STATUS_OK;
}

static void destroy(struct http_exchange *exchange)
{
    const struct http_doorkeeper *doorkeeper = http_outbox_doorkeeper(exchange->outbox);
    assert(exchange->is_over && !exchange->is_queued);
    if (exchange->pass && doorkeeper->destroy)
        doorkeeper->destroy(doorkeeper->arg, exchange->pass);
    http_exchange_drop_body(exchange);
    http_head_finish(&exchange->head);
    free(exchange->head_text);
    evbuffer_free(exchange->out);
    for (size_t i = 0; i < exchange->n_fields; i++)
        free((char *)exchange->fields[i].value);
    http_outbox_release(exchange->outbox);
    pthread_mutex_destroy(&exchange->lock);
    free(exchange);
}

/* Unlocks it, and frees it when nobody has it any more. */
static void unlock(struct http_exchange *exchange)
{
    bool is_last = exchange->n_holders == 0 && !exchange->has_connection && !exchange->is_queued;
    pthread_mutex_unlock(&exchange->lock);
    if (is_last)
        destroy(exchange);
}

struct http_exchange *http_exchange_share(struct http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    assert(exchange->n_holders > 0);
    exchange->n_holders++;
    pthread_mutex_unlock(&exchange->lock);
    return exchange;
}

void http_exchange_release(struct http_exchange *exchange)
{
    if (!exchange)
        return;
    pthread_mutex_lock(&exchange->lock);
    assert(exchange->n_holders > 0);
    enum http_answer_place place = exchange->place;
    bool is_forgotten = exchange->n_holders == 1 && !exchange->is_over;
    pthread_mutex_unlock(&exchange->lock);
    if (is_forgotten && place == HTTP_UNANSWERED)
        http_exchange_refuse(exchange, 500, 0, "%s", status_text(STATUS_BUG));
    else if (is_forgotten && place == HTTP_STREAMING)
        http_exchange_cut(exchange);
    pthread_mutex_lock(&exchange->lock);
    exchange->n_holders--;
    unlock(exchange);
}

/* ---- the request ---- */

enum http_verb http_exchange_verb(const struct http_exchange *exchange)
{
    return exchange->head.verb;
}

const char *http_exchange_path(const struct http_exchange *exchange)
{
    return exchange->head.path;
}

const char *http_exchange_path_rest(const struct http_exchange *exchange)
{
    return exchange->path_rest;
}

size_t http_exchange_query(const struct http_exchange *exchange, const char *key, char *value_out,
                           size_t n_max)
{
    return http_head_query(&exchange->head, key, value_out, n_max);
}

const char *http_exchange_field(const struct http_exchange *exchange, const char *name)
{
    return http_head_field(&exchange->head, name);
}

uint32_t http_exchange_count_fields(const struct http_exchange *exchange, const char *name)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < exchange->head.n_fields; i++)
        n += strcasecmp(exchange->head.fields[i].name, name) == 0;
    return n;
}

void http_exchange_peer_of(const struct http_exchange *exchange, struct rpc_peer *peer_out)
{
    *peer_out = exchange->peer;
}

void *http_exchange_pass(const struct http_exchange *exchange)
{
    return exchange->pass;
}

/* ---- its body ---- */

/* Room for n bytes and a NUL. What a small body takes is bounded by the number of connections. */
static enum status grow_body(struct http_exchange *exchange, size_t n)
{
    size_t room = exchange->body_room ? exchange->body_room : 1024;
    while (room < n + 1)
        room *= 2;
    if (exchange->head.framing == HTTP_LENGTH && room > exchange->head.length + 1)
        room = (size_t)exchange->head.length + 1;
    uint64_t counted = room > HTTP_SMALL_BODY_BYTES + 1 ? room : 0;
    assert(counted >= exchange->body_counted);
    uint64_t more = counted - exchange->body_counted;
    if (!http_outbox_add_body(exchange->outbox, more))
        return STATUS_QUEUE_FULL;
    exchange->body_counted = counted;
    char *grown = realloc(exchange->body, room);
    if (!grown)
        return STATUS_NO_MEMORY;
    exchange->body = grown;
    exchange->body_room = room;
    return STATUS_OK;
}

enum status http_exchange_add_body(struct http_exchange *exchange, const uint8_t *bytes, size_t n)
{
    if (exchange->body_bytes + n + 1 > exchange->body_room)
        TRY(grow_body(exchange, exchange->body_bytes + n));
    memcpy(exchange->body + exchange->body_bytes, bytes, n);
    exchange->body_bytes += n;
    exchange->body[exchange->body_bytes] = '\0';
    return STATUS_OK;
}

const char *http_exchange_body(const struct http_exchange *exchange, size_t *bytes_out)
{
    *bytes_out = exchange->body_bytes;
    return exchange->body ? exchange->body : "";
}

void http_exchange_drop_body(struct http_exchange *exchange)
{
    free(exchange->body);
    exchange->body = NULL;
    exchange->body_bytes = exchange->body_room = 0;
    http_outbox_drop_body(exchange->outbox, exchange->body_counted);
    exchange->body_counted = 0;
}

/* ---- the answer, under the lock ---- */

static void queue(struct http_exchange *exchange)
{
    if (exchange->is_queued || !exchange->has_connection)
        return;
    exchange->is_queued = true;
    http_outbox_put(exchange->outbox, exchange, &exchange->next_queued);
}

static void drop_output(struct http_exchange *exchange)
{
    size_t n = evbuffer_get_length(exchange->out);
    evbuffer_drain(exchange->out, n);
    http_outbox_drop_unsent(exchange->outbox, n);
}

static void end_early(struct http_exchange *exchange, enum status why)
{
    exchange->place = HTTP_CUT;
    exchange->is_killed = true;
    exchange->kill_status = why;
    drop_output(exchange);
    queue(exchange);
}

/* is_whole: what was to be added is in out, where n_before bytes were. */
static enum status account(struct http_exchange *exchange, size_t n_before, bool is_whole)
{
    http_outbox_add_unsent(exchange->outbox, evbuffer_get_length(exchange->out) - n_before);
    if (!is_whole) {
        end_early(exchange, STATUS_NO_MEMORY);
        return STATUS_NO_MEMORY;
    }
    queue(exchange);
    return STATUS_OK;
}

static struct http_answer_framing whole_framing(struct http_exchange *exchange, size_t bytes)
{
    exchange->closes = exchange->closes || http_outbox_is_draining(exchange->outbox);
    return (struct http_answer_framing){.body = HTTP_ANSWER_WHOLE,
                                        .length = bytes,
                                        .closes = exchange->closes,
                                        .fields = exchange->fields,
                                        .n_fields = exchange->n_fields};
}

static bool has_answer_body(const struct http_exchange *exchange, unsigned code)
{
    return exchange->head.verb != HTTP_VERB_HEAD && http_code_has_body(code);
}

static enum status reply(struct http_exchange *exchange, const struct http_answer_head *head,
                         const void *body, size_t bytes)
{
    const struct http_answer_framing framing = whole_framing(exchange, bytes);
    size_t n_before = evbuffer_get_length(exchange->out);
    exchange->place = HTTP_ANSWERED;
    exchange->code = head->code;
    bool is_whole = http_answer_head_write(exchange->out, head, &framing) &&
                    (!has_answer_body(exchange, head->code) ||
                     evbuffer_add(exchange->out, body, bytes) == 0);
    return account(exchange, n_before, is_whole);
}

/* ---- the answer ---- */

static bool is_unanswered(const struct http_exchange *exchange)
{
    return !exchange->is_over && exchange->place == HTTP_UNANSWERED;
}

enum status http_exchange_add_field(struct http_exchange *exchange, const char *name,
                                    const char *value)
{
    enum status status = STATUS_CANCELLED;
    pthread_mutex_lock(&exchange->lock);
    if (is_unanswered(exchange)) {
        assert(exchange->n_fields < HTTP_EXCHANGE_FIELDS_MAX);
        char *copy = strdup(value);
        status = copy ? STATUS_OK : STATUS_NO_MEMORY;
        if (copy)
            exchange->fields[exchange->n_fields++] = (struct http_field){name, copy};
    }
    pthread_mutex_unlock(&exchange->lock);
    return status;
}

enum status http_exchange_reply(struct http_exchange *exchange, const struct http_answer_head *head,
                                const void *body, size_t bytes)
{
    if (bytes > http_outbox_limits(exchange->outbox)->reply_bytes_max)
        return STATUS_REPLY_TOO_LONG;
    if (bytes > http_outbox_reply_max(exchange->outbox))
        return STATUS_QUEUE_FULL;
    pthread_mutex_lock(&exchange->lock);
    enum status status = is_unanswered(exchange) ? reply(exchange, head, body, bytes)
                                                 : STATUS_CANCELLED;
    pthread_mutex_unlock(&exchange->lock);
    return status;
}

/* Those of the exchange, and what its refusal repeats of the request. */
static size_t refusal_fields(const struct http_exchange *exchange,
                             struct http_field fields_out[HTTP_EXCHANGE_FIELDS_MAX + 1])
{
    const struct http_error_form *form = http_outbox_error_form(exchange->outbox);
    const char *value = form && form->repeats ? http_exchange_field(exchange, form->repeats) : NULL;
    memcpy(fields_out, exchange->fields, exchange->n_fields * sizeof *fields_out);
    if (!value || !value[0] || strlen(value) > HTTP_REPEATED_BYTES_MAX)
        return exchange->n_fields;
    fields_out[exchange->n_fields] = (struct http_field){form->repeats, value};
    return exchange->n_fields + 1;
}

void http_exchange_refuse_with(struct http_exchange *exchange, unsigned code,
                               unsigned retry_after_s, const char *allow, const char *sentence)
{
    pthread_mutex_lock(&exchange->lock);
    if (is_unanswered(exchange)) {
        size_t n_before = evbuffer_get_length(exchange->out);
        struct http_field fields[HTTP_EXCHANGE_FIELDS_MAX + 1];
        const size_t n_fields = refusal_fields(exchange, fields);
        const struct http_error_answer answer = {
            .code = code,
            .retry_after_s = retry_after_s,
            .allow = allow,
            .sentence = sentence,
            .closes = whole_framing(exchange, 0).closes,
            .lacks_body = !has_answer_body(exchange, code),
            .fields = fields,
            .n_fields = n_fields,
        };
        exchange->place = HTTP_ANSWERED;
        exchange->code = code;
        (void)account(exchange, n_before,
                      http_error_answer_write(exchange->out, &answer,
                                              http_outbox_error_form(exchange->outbox)));
    }
    pthread_mutex_unlock(&exchange->lock);
}

void http_exchange_refuse(struct http_exchange *exchange, unsigned code, unsigned retry_after_s,
                          const char *format, ...)
{
    struct error sentence;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence.text, sizeof sentence.text, format, arguments);
    va_end(arguments);
    http_exchange_refuse_with(exchange, code, retry_after_s, NULL, sentence.text);
}

enum status http_exchange_begin(struct http_exchange *exchange, const struct http_answer_head *head)
{
    assert(http_code_has_body(head->code));
    pthread_mutex_lock(&exchange->lock);
    if (!is_unanswered(exchange)) {
        pthread_mutex_unlock(&exchange->lock);
        return STATUS_CANCELLED;
    }
    struct http_answer_framing framing = whole_framing(exchange, 0);
    framing.body = exchange->head.is_http_1_0 ? HTTP_ANSWER_UNTIL_END : HTTP_ANSWER_CHUNKED;
    exchange->is_chunked = framing.body == HTTP_ANSWER_CHUNKED;
    exchange->place = HTTP_STREAMING;
    exchange->code = head->code;
    size_t n_before = evbuffer_get_length(exchange->out);
    enum status status = account(exchange, n_before,
                                 http_answer_head_write(exchange->out, head, &framing));
    pthread_mutex_unlock(&exchange->lock);
    return status;
}

static enum status add_chunk(struct http_exchange *exchange, const void *bytes, size_t n)
{
    size_t n_before = evbuffer_get_length(exchange->out);
    if (n_before + n + CHUNK_COST_BYTES >
        http_outbox_unsent_max(exchange->outbox) + exchange->kept_bytes_max) {
        end_early(exchange, STATUS_SLOW_READER);
        return STATUS_QUEUE_FULL;
    }
    bool is_whole = (!exchange->is_chunked ||
                     evbuffer_add_printf(exchange->out, "%zx\r\n", n) > 0) &&
                    evbuffer_add(exchange->out, bytes, n) == 0 &&
                    (!exchange->is_chunked || evbuffer_add(exchange->out, "\r\n", 2) == 0);
    return account(exchange, n_before, is_whole);
}

enum status http_exchange_send(struct http_exchange *exchange, const void *bytes, size_t n)
{
    enum status status = STATUS_OK;
    pthread_mutex_lock(&exchange->lock);
    if (exchange->is_over || exchange->place != HTTP_STREAMING)
        status = STATUS_CANCELLED;
    else if (n > 0 && exchange->head.verb != HTTP_VERB_HEAD)
        status = add_chunk(exchange, bytes, n);
    pthread_mutex_unlock(&exchange->lock);
    return status;
}

void http_exchange_keeps(struct http_exchange *exchange, uint64_t bytes_max)
{
    pthread_mutex_lock(&exchange->lock);
    exchange->kept_bytes_max = bytes_max;
    pthread_mutex_unlock(&exchange->lock);
}

void http_exchange_end(struct http_exchange *exchange)
{
    static const char LAST_CHUNK[] = "0\r\n\r\n";
    pthread_mutex_lock(&exchange->lock);
    if (!exchange->is_over && exchange->place == HTTP_STREAMING) {
        size_t n_before = evbuffer_get_length(exchange->out);
        bool has_last = exchange->is_chunked && exchange->head.verb != HTTP_VERB_HEAD;
        exchange->place = HTTP_ANSWERED;
        (void)account(exchange, n_before,
                      !has_last ||
                          evbuffer_add(exchange->out, LAST_CHUNK, sizeof LAST_CHUNK - 1) == 0);
    }
    pthread_mutex_unlock(&exchange->lock);
}

void http_exchange_cut(struct http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    if (!exchange->is_over && exchange->place != HTTP_ANSWERED) {
        exchange->place = HTTP_CUT;
        queue(exchange);
    }
    pthread_mutex_unlock(&exchange->lock);
}

/* ---- its end ---- */

void http_exchange_on_end(struct http_exchange *exchange, http_exchange_ended on_end, void *arg)
{
    pthread_mutex_lock(&exchange->lock);
    assert(!exchange->on_end && "one function");
    exchange->on_end = on_end;
    exchange->on_end_arg = arg;
    bool is_over = exchange->is_over;
    enum status why = exchange->end_status;
    pthread_mutex_unlock(&exchange->lock);
    if (is_over)
        on_end(arg, why);
}

void http_exchange_on_quiet(struct http_exchange *exchange, void (*on_quiet)(void *arg), void *arg)
{
    pthread_mutex_lock(&exchange->lock);
    assert(!exchange->on_quiet && "one function");
    exchange->on_quiet = on_quiet;
    exchange->on_quiet_arg = arg;
    pthread_mutex_unlock(&exchange->lock);
}

bool http_exchange_is_over(struct http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    bool is_over = exchange->is_over || exchange->is_killed;
    pthread_mutex_unlock(&exchange->lock);
    return is_over;
}

enum status http_exchange_end_status(struct http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    enum status status = exchange->is_over ? exchange->end_status : exchange->kill_status;
    pthread_mutex_unlock(&exchange->lock);
    return status;
}

/* ---- of the port's thread ---- */

void http_exchange_take_output(struct http_exchange *exchange, struct evbuffer *to, size_t n_max,
                               struct http_output *output_out)
{
    pthread_mutex_lock(&exchange->lock);
    int n = evbuffer_remove_buffer(exchange->out, to, n_max);
    if (n > 0)
        http_outbox_drop_unsent(exchange->outbox, (size_t)n);
    *output_out = (struct http_output){
        .place = exchange->place,
        .is_all = evbuffer_get_length(exchange->out) == 0,
        .is_killed = exchange->is_killed,
        .closes = exchange->closes,
        .code = exchange->code,
    };
    pthread_mutex_unlock(&exchange->lock);
}

void http_exchange_tell_quiet(struct http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    assert(!exchange->is_over);
    void (*on_quiet)(void *arg) = exchange->on_quiet;
    void *arg = exchange->on_quiet_arg;
    pthread_mutex_unlock(&exchange->lock);
    if (on_quiet)
        on_quiet(arg);
}

bool http_exchange_is_answered(struct http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    bool is_answered = exchange->place != HTTP_UNANSWERED;
    pthread_mutex_unlock(&exchange->lock);
    return is_answered;
}

bool http_exchange_is_answered_whole(struct http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    bool is_whole = exchange->place == HTTP_ANSWERED;
    pthread_mutex_unlock(&exchange->lock);
    return is_whole;
}

void http_exchange_set_closes(struct http_exchange *exchange, bool closes)
{
    pthread_mutex_lock(&exchange->lock);
    exchange->closes = closes;
    pthread_mutex_unlock(&exchange->lock);
}

struct http_exchange *http_exchange_unqueue(struct http_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    assert(exchange->is_queued);
    struct http_exchange *next = exchange->next_queued;
    exchange->is_queued = false;
    unlock(exchange);
    return next;
}

static enum status how_it_ended(const struct http_exchange *exchange, enum status why)
{
    if (exchange->is_killed)
        return exchange->kill_status;
    return why == STATUS_OK && exchange->place != HTTP_ANSWERED ? STATUS_CANCELLED : why;
}

enum status http_exchange_leave(struct http_exchange *exchange, enum status why, unsigned *code_out)
{
    const struct http_doorkeeper *doorkeeper = http_outbox_doorkeeper(exchange->outbox);
    pthread_mutex_lock(&exchange->lock);
    assert(!exchange->is_over && exchange->has_connection);
    exchange->is_over = true;
    *code_out = exchange->code;
    exchange->end_status = why = how_it_ended(exchange, why);
    drop_output(exchange);
    http_exchange_ended on_end = exchange->on_end;
    void *arg = exchange->on_end_arg;
    pthread_mutex_unlock(&exchange->lock);
    exchange->connection = NULL;
    if (exchange->pass && doorkeeper->leave)
        doorkeeper->leave(doorkeeper->arg, exchange->pass);
    if (on_end)
        on_end(arg, why);
    pthread_mutex_lock(&exchange->lock);
    exchange->has_connection = false;
    unlock(exchange);
    return why;
}
