#include "base/log/log_line.h"

#include "base/utf8.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TAIL_BYTES 16u /* for the end: ,"cut":true}\n */

/* Appends all of it or nothing. */
static void put(struct log_line *line, const char *text, size_t n)
{
    assert(line->length <= LOG_LINE_BYTES - TAIL_BYTES);
    if (line->is_cut || n > LOG_LINE_BYTES - TAIL_BYTES - line->length) {
        line->is_cut = true;
        return;
    }
    memcpy(line->text + line->length, text, n);
    line->length += n;
}

static void put_text(struct log_line *line, const char *text)
{
    put(line, text, strlen(text));
}

static void put_format(struct log_line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void put_format(struct log_line *line, const char *format, ...)
{
    char text[64];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert(n >= 0 && (size_t)n < sizeof text);
    put(line, text, (size_t)n);
}

/* ---- text ---- */

static bool is_plain(char byte)
{
    return byte >= ' ' && byte < 0x7f && byte != '"' && byte != '\\';
}

/* Reads the character at text and its length in bytes; false: no character begins with this byte. */
static bool read_character(const char *text, size_t n_bytes, uint32_t *codepoint_out,
                           size_t *length_out)
{
    *length_out = 1;
    if (utf8_sequence((const uint8_t *)text, n_bytes, length_out) != UTF8_WHOLE) {
        *length_out = 1;
        return false;
    }
    utf8_read(text, codepoint_out);
    return true;
}

/* Appends a character that needs an escape; n bytes. is_quoted: within quotation marks. */
static void put_special(struct log_line *line, const char *text, size_t n, bool is_whole,
                        uint32_t codepoint, bool is_quoted)
{
    bool is_mark = codepoint == '"' || codepoint == '\\';
    if (is_whole && is_quoted && is_mark)
        put_format(line, "\\%c", *text);
    else if (is_whole && !utf8_is_control(codepoint))
        put(line, text, n);
    else if (line->is_json)
        put_format(line, "\\u%04x", is_whole ? codepoint : 0xfffdu);
    else if (is_whole && codepoint >= 0x100)
        put_format(line, "\\u%04x", codepoint);
    else
        for (size_t i = 0; i < n; i++)
            put_format(line, "\\x%02x", (uint8_t)text[i]);
}

static void put_escaped(struct log_line *line, const char *text, size_t bytes_max, bool is_quoted)
{
    const char *end = text + strnlen(text, bytes_max);
    bool is_longer = *end != '\0';
    while (text < end && !line->is_cut) {
        size_t n = 0;
        while (text + n < end && is_plain(text[n]))
            n++;
        put(line, text, n);
        text += n;
        if (text == end)
            break;
        uint32_t codepoint = 0;
        bool is_whole = read_character(text, (size_t)(end - text), &codepoint, &n);
        put_special(line, text, n, is_whole, codepoint, is_quoted);
        text += n;
    }
    if (is_longer)
        put_text(line, "...");
}

/* ---- both forms ---- */

static void put_time(struct log_line *line)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    char text[32];

    if (line->is_json)
        gmtime_r(&now.tv_sec, &parts);
    else
        localtime_r(&now.tv_sec, &parts);
    strftime(text, sizeof text, line->is_json ? "%Y-%m-%dT%H:%M:%S" : "%H:%M:%S", &parts);
    put_format(line, "%s.%03d", text, (int)(now.tv_nsec / 1000000));
}

/* The field has no value: no text, or no finite number. */
static bool is_absent(const struct log_field *field)
{
    return (field->kind == LOG_FIELD_TEXT && (!field->text || !field->text[0])) ||
           (field->kind == LOG_FIELD_F64 && !isfinite(field->f64));
}

static void put_number(struct log_line *line, const struct log_field *field)
{
    char text[32];
    const char *mark = line->is_json ? "\"" : "";
    if (field->kind == LOG_FIELD_U64)
        put_format(line, "%" PRIu64, field->u64);
    else if (field->kind == LOG_FIELD_HEX)
        put_format(line, "%s%016" PRIx64 "%s", mark, field->u64, mark);
    else if (fabs(field->f64) < 1e15)
        put_format(line, "%.3f", field->f64);
    else {
        snprintf(text, sizeof text, "%.6e", field->f64);
        put_text(line, text);
    }
}

static void put_trace_id(struct log_line *line, const struct trace_context *trace)
{
    char text[TRACE_ID_TEXT];
    trace_id_format(trace, text);
    put_text(line, text);
}

/* ---- for people ---- */

static bool needs_quotes(const char *text)
{
    return strpbrk(text, " \"=\\") != NULL;
}

static void put_field(struct log_line *line, const struct log_field *field)
{
    put_format(line, " %.40s=", field->key);
    if (field->kind != LOG_FIELD_TEXT) {
        put_number(line, field);
        return;
    }
    bool is_quoted = needs_quotes(field->text);
    if (is_quoted)
        put_text(line, "\"");
    put_escaped(line, field->text, LOG_FIELD_TEXT_BYTES, is_quoted);
    if (is_quoted)
        put_text(line, "\"");
}

static void format_human(struct log_line *line, const struct log_line_head *head,
                         const struct log_about *about, const char *event,
                         const struct log_field *fields, size_t n_fields)
{
    put_time(line);
    put_format(line, " %-5s %.31s  ", head->level, head->role);
    put_escaped(line, event, LOG_MESSAGE_BYTES, false);
    for (size_t i = 0; i < n_fields; i++)
        if (!is_absent(&fields[i]))
            put_field(line, &fields[i]);
    if (about->peer && about->peer[0]) {
        put_text(line, "  peer=");
        put_escaped(line, about->peer, LOG_PEER_BYTES, false);
    }
    if (about->request_id) {
        put_text(line, "  request=");
        put_escaped(line, about->request_id, LOG_ID_BYTES, false);
    }
    if (trace_context_is_some(about->trace)) {
        put_text(line, "  trace=");
        put_trace_id(line, about->trace);
    }
    const char *end = line->is_cut ? " ...\n" : "\n";
    assert(strlen(end) <= LOG_LINE_BYTES - line->length);
    memcpy(line->text + line->length, end, strlen(end));
    line->length += strlen(end);
}

/* ---- JSON ---- */

/* Appends the whole member or nothing; without room the line is marked as cut. */
static void put_member(struct log_line *line, const char *key, const char *text, size_t bytes_max)
{
    size_t before = line->length;
    put_format(line, ",\"%.40s\":\"", key);
    put_escaped(line, text, bytes_max, true);
    put_text(line, "\"");
    if (line->is_cut)
        line->length = before;
}

static void put_field_member(struct log_line *line, const struct log_field *field)
{
    if (field->kind == LOG_FIELD_TEXT) {
        put_member(line, field->key, field->text, LOG_FIELD_TEXT_BYTES);
        return;
    }
    size_t before = line->length;
    put_format(line, ",\"%.40s\":", field->key);
    put_number(line, field);
    if (line->is_cut)
        line->length = before;
}

static void format_json(struct log_line *line, const struct log_line_head *head,
                        const struct log_about *about, const char *event,
                        const struct log_field *fields, size_t n_fields)
{
    put_text(line, "{\"ts\":\"");
    put_time(line);
    put_format(line, "Z\",\"level\":\"%s\"", head->level);
    put_member(line, "role", head->role, LOG_ROLE_BYTES);
    if (head->name[0])
        put_member(line, "name", head->name, LOG_NAME_BYTES);
    put_member(line, "msg", event, LOG_MESSAGE_BYTES);
    if (about->request_id)
        put_member(line, "request_id", about->request_id, LOG_ID_BYTES);
    if (trace_context_is_some(about->trace)) {
        char text[TRACE_ID_TEXT];
        trace_id_format(about->trace, text);
        put_member(line, "trace_id", text, sizeof text);
    }
    if (about->peer && about->peer[0])
        put_member(line, "peer", about->peer, LOG_PEER_BYTES);
    for (size_t i = 0; i < n_fields && !line->is_cut; i++)
        if (!is_absent(&fields[i]))
            put_field_member(line, &fields[i]);
    const char *end = line->is_cut ? ",\"cut\":true}\n" : "}\n";
    assert(strlen(end) <= LOG_LINE_BYTES - line->length);
    memcpy(line->text + line->length, end, strlen(end));
    line->length += strlen(end);
}

void log_line_format(struct log_line *line, const struct log_line_head *head,
                     const struct log_about *about, const char *event,
                     const struct log_field *fields, size_t n_fields)
{
    static const struct log_about NOTHING = {0};
    line->length = 0;
    line->is_cut = false;
    line->is_json = head->is_json;
    if (head->is_json)
        format_json(line, head, about ? about : &NOTHING, event, fields, n_fields);
    else
        format_human(line, head, about ? about : &NOTHING, event, fields, n_fields);
}
