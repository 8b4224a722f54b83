#include "base/log.h"

#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ROLE_BYTES = 32,
    MESSAGE_BYTES = 1500, /* of a message, before escaping; the rest is cut */
    REQUEST_ID_BYTES = 128,
    ESCAPED_BYTES = 6, /* the longest form of one byte: \u001b */
    LINE_BYTES = ESCAPED_BYTES * (MESSAGE_BYTES + REQUEST_ID_BYTES + ROLE_BYTES) + 256,
};

static const char *const LEVEL_NAMES[] = {"error", "warn", "info", "debug"};

static char log_role[ROLE_BYTES] = "kvferry";
static atomic_int log_level_now = LOG_INFO;
static bool log_as_json;

struct line {
    size_t length;
    char text[LINE_BYTES];
};

void log_init(const char *role, enum log_level level, enum log_format format)
{
    assert(role && strlen(role) < ROLE_BYTES);
    snprintf(log_role, sizeof log_role, "%s", role);
    log_as_json = format == LOG_FORMAT_JSON ||
                  (format == LOG_FORMAT_AUTO && !isatty(STDERR_FILENO));
    log_set_level(level);
}

void log_set_level(enum log_level level)
{
    assert(level <= LOG_DEBUG);
    atomic_store_explicit(&log_level_now, (int)level, memory_order_relaxed);
}

bool log_is_on(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&log_level_now, memory_order_relaxed);
}

enum status log_level_parse(const char *name, enum log_level *level_out)
{
    for (unsigned i = 0; i < sizeof LEVEL_NAMES / sizeof *LEVEL_NAMES; i++) {
        if (strcmp(name, LEVEL_NAMES[i]) == 0) {
            *level_out = (enum log_level)i;
            return STATUS_OK;
        }
    }
    return STATUS_INVALID_ARGUMENT;
}

static void append(struct line *line, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void append(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line->text + line->length, LINE_BYTES - line->length, format, arguments);
    va_end(arguments);
    assert(n >= 0 && (size_t)n < LINE_BYTES - line->length);
    line->length += (size_t)n;
}

/* Bytes of the character at text that is safe to show beyond ASCII, 0 when there is none. */
static size_t shown_bytes(const char *text, size_t n_bytes)
{
    size_t length;
    bool is_whole = utf8_sequence((const uint8_t *)text, n_bytes, &length) == UTF8_WHOLE;
    bool is_c1_control = is_whole && (uint8_t)text[0] == 0xc2 && (uint8_t)text[1] < 0xa0;
    return !is_whole || is_c1_control ? 0 : length;
}

/* What a client sent may be in there: nothing of it may end a line, a string or a terminal's mood.
 */
static void append_escaped(struct line *line, const char *text)
{
    const char *end = text + strlen(text);
    while (text < end) {
        uint8_t byte = (uint8_t)*text;
        size_t n = 1;
        if (byte >= 0x80 && (n = shown_bytes(text, (size_t)(end - text))) > 0)
            append(line, "%.*s", (int)n, text);
        else if (log_as_json && (byte == '"' || byte == '\\'))
            append(line, "\\%c", byte);
        else if (byte >= 0x20 && byte < 0x7f)
            append(line, "%c", byte);
        else if (log_as_json)
            append(line, byte >= 0x80 ? "\\ufffd" : "\\u%04x", byte);
        else
            append(line, "\\x%02x", byte);
        text += n ? n : 1;
    }
}

static void append_time(struct line *line)
{
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    char text[32];

    if (log_as_json)
        gmtime_r(&now.tv_sec, &parts);
    else
        localtime_r(&now.tv_sec, &parts);
    strftime(text, sizeof text, log_as_json ? "%Y-%m-%dT%H:%M:%S" : "%H:%M:%S", &parts);
    append(line, "%s.%03d", text, (int)(now.tv_nsec / 1000000));
}

static void append_human(struct line *line, enum log_level level, const char *request_id,
                         const char *message)
{
    append_time(line);
    append(line, " %-5s %s  ", LEVEL_NAMES[level], log_role);
    append_escaped(line, message);
    if (request_id) {
        append(line, "  request=");
        append_escaped(line, request_id);
    }
    append(line, "\n");
}

static void append_json(struct line *line, enum log_level level, const char *request_id,
                        const char *message)
{
    append(line, "{\"ts\":\"");
    append_time(line);
    append(line, "Z\",\"level\":\"%s\",\"role\":\"", LEVEL_NAMES[level]);
    append_escaped(line, log_role);
    append(line, "\",\"msg\":\"");
    append_escaped(line, message);
    if (request_id) {
        append(line, "\",\"request_id\":\"");
        append_escaped(line, request_id);
    }
    append(line, "\"}\n");
}

void log_write(enum log_level level, const char *request_id, const char *format, ...)
{
    assert(level <= LOG_DEBUG);
    if (!log_is_on(level))
        return;

    int errno_before = errno;
    char message[MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length >= MESSAGE_BYTES)
        memcpy(message + MESSAGE_BYTES - 4, "...", 4);
    else if (length < 0)
        snprintf(message, sizeof message, "%s", format);

    char id[REQUEST_ID_BYTES];
    if (request_id)
        snprintf(id, sizeof id, "%s", request_id);

    struct line line;
    line.length = 0;
    if (log_as_json)
        append_json(&line, level, request_id ? id : NULL, message);
    else
        append_human(&line, level, request_id ? id : NULL, message);
    /* One write, so that lines of several threads and processes do not mix. Nobody could be told
     * of a failure. */
    ssize_t written = write(STDERR_FILENO, line.text, line.length);
    (void)written;
    errno = errno_before;
}
