#include "api/http/http_answer_head.h"

#include "base/clock.h"

#include <assert.h>
#include <event2/buffer.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define DATE_BYTES 40

const char *http_reason_phrase(unsigned code)
{
    static const struct {
        unsigned code;
        const char *phrase;
    } PHRASES[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {411, "Length Required"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {422, "Unprocessable Content"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof PHRASES / sizeof *PHRASES; i++)
        if (PHRASES[i].code == code)
            return PHRASES[i].phrase;
    return "Other";
}

bool http_code_has_body(unsigned code)
{
    return code >= 200 && code != 204 && code != 304;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT", whatever the locale. */
static void write_date(char date_out[DATE_BYTES])
{
    static const char DAYS[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char MONTHS[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    const time_t now = (time_t)(clock_unix_ms() / 1000);
    struct tm at;
    if (!gmtime_r(&now, &at)) {
        date_out[0] = '\0';
        return;
    }
    snprintf(date_out, DATE_BYTES, "%s, %02d %s %04d %02d:%02d:%02d GMT", DAYS[at.tm_wday % 7],
             at.tm_mday, MONTHS[at.tm_mon % 12], at.tm_year + 1900, at.tm_hour, at.tm_min,
             at.tm_sec);
}

/* Nothing in a value may end its line. */
static bool write_field(struct evbuffer *out, const struct http_field *field)
{
    if (evbuffer_add_printf(out, "%s: ", field->name) < 0)
        return false;
    for (const char *at = field->value; *at;) {
        size_t n = 0;
        while ((unsigned char)at[n] >= ' ' && at[n] != 0x7f)
            n++;
        if (evbuffer_add(out, at, n) != 0 || (at[n] && evbuffer_add(out, "?", 1) != 0))
            return false;
        at += n + (at[n] != '\0');
    }
    return evbuffer_add(out, "\r\n", 2) == 0;
}

static bool write_framing(struct evbuffer *out, unsigned code,
                          const struct http_answer_framing *framing)
{
    int n = 0;
    if (framing->body == HTTP_ANSWER_CHUNKED)
        n = evbuffer_add_printf(out, "Transfer-Encoding: chunked\r\n");
    else if (framing->body == HTTP_ANSWER_WHOLE && http_code_has_body(code))
        n = evbuffer_add_printf(out, "Content-Length: %llu\r\n",
                                (unsigned long long)framing->length);
    return n >= 0 &&
           evbuffer_add_printf(out, "%s\r\n", framing->closes ? "Connection: close\r\n" : "") >= 0;
}

bool http_answer_head_write(struct evbuffer *out, const struct http_answer_head *head,
                            const struct http_answer_framing *framing)
{
    assert(head->code >= 200 && head->code <= 599);
    char date[DATE_BYTES];
    write_date(date);
    bool is_whole = evbuffer_add_printf(out, "HTTP/1.1 %u %s\r\nDate: %s\r\n", head->code,
                                        http_reason_phrase(head->code), date) >= 0;
    for (size_t i = 0; is_whole && i < head->n_fields; i++)
        is_whole = write_field(out, &head->fields[i]);
    for (size_t i = 0; is_whole && i < framing->n_fields; i++)
        is_whole = write_field(out, &framing->fields[i]);
    return is_whole && write_framing(out, head->code, framing);
}

static size_t write_plain(const char *sentence, char body_out[HTTP_ERROR_BYTES_MAX])
{
    int n = snprintf(body_out, HTTP_ERROR_BYTES_MAX, "%s\n", sentence);
    return n < HTTP_ERROR_BYTES_MAX ? (size_t)n : HTTP_ERROR_BYTES_MAX - 1;
}

bool http_error_answer_write(struct evbuffer *out, const struct http_error_answer *answer,
                             const struct http_error_form *form)
{
    char body[HTTP_ERROR_BYTES_MAX], seconds[16];
    size_t n = form ? form->write(form->arg, answer->code, answer->sentence, body)
                    : write_plain(answer->sentence, body);
    assert(n <= HTTP_ERROR_BYTES_MAX);
    struct http_field fields[3] = {
        {"Content-Type", form ? form->type : "text/plain; charset=utf-8"}};
    struct http_answer_head head = {.code = answer->code, .fields = fields, .n_fields = 1};
    if (answer->retry_after_s) {
        snprintf(seconds, sizeof seconds, "%u", answer->retry_after_s);
        fields[head.n_fields++] = (struct http_field){"Retry-After", seconds};
    }
    if (answer->allow)
        fields[head.n_fields++] = (struct http_field){"Allow", answer->allow};
    const struct http_answer_framing framing = {.body = HTTP_ANSWER_WHOLE,
                                                .length = n,
                                                .closes = answer->closes,
                                                .fields = answer->fields,
                                                .n_fields = answer->n_fields};
    return http_answer_head_write(out, &head, &framing) &&
           (answer->lacks_body || evbuffer_add(out, body, n) == 0);
}
