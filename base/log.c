#include "base/log.h"

#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ROLE_BYTES = 32,
    MESSAGE_BYTES = 1500, /* of a message, before escaping; the rest is cut */
    REQUEST_ID_BYTES = 128,
    ESCAPED_BYTES = 6, /* the longest form of one byte: \u001b */
    LINE_BYTES = ESCAPED_BYTES * (MESSAGE_BYTES + REQUEST_ID_BYTES + ROLE_BYTES) + 256,
    EXIT_FLUSH_MS = 1000,
};

static const char *const LEVEL_NAMES[] = {"error", "warn", "info", "debug"};

static char log_role[ROLE_BYTES] = "kvferry";
static atomic_int log_level_now = LOG_INFO;
static bool log_as_json;

struct line {
    size_t length;
    char text[LINE_BYTES];
};

/* Lines on their way to the writer thread. The atomics are written under the lock, or by the writer
 * alone, and read by log_flush in a signal handler. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    bool has_writer;
    size_t head, count;      /* of the bytes in text: whole lines */
    atomic_size_t unwritten; /* bytes taken from a caller and not given to the kernel */
    atomic_uint_fast64_t n_dropped;
    atomic_uint_fast64_t n_reported; /* of them, in a line of their own */
    char text[LOG_QUEUE_BYTES];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

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

/* The character at text, of length bytes; false: the byte there is none's. */
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

/* What a client sent may be in there: nothing of it may end a line, a string or a terminal's mood, nor show in
 * another order than it has. */
static void append_escaped(struct line *line, const char *text)
{
    const char *end = text + strlen(text);
    for (size_t n; text < end; text += n) {
        uint32_t codepoint = 0;
        bool is_whole = read_character(text, (size_t)(end - text), &codepoint, &n);
        if (is_whole && log_as_json && (codepoint == '"' || codepoint == '\\'))
            append(line, "\\%c", *text);
        else if (is_whole && !utf8_is_control(codepoint))
            append(line, "%.*s", (int)n, text);
        else if (log_as_json)
            append(line, "\\u%04x", is_whole ? codepoint : 0xfffdu);
        else if (is_whole && codepoint >= 0x100)
            append(line, "\\u%04x", codepoint);
        else
            for (size_t i = 0; i < n; i++)
                append(line, "\\x%02x", (uint8_t)text[i]);
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

static void format_line(struct line *line, enum log_level level, const char *request_id,
                        const char *message)
{
    line->length = 0;
    if (log_as_json)
        append_json(line, level, request_id, message);
    else
        append_human(line, level, request_id, message);
}

/* ---- the way out ---- */

/* One write a line, so that lines of several threads and processes do not mix. Nobody could be told
 * of a failure. */
static void write_line(const struct line *line)
{
    size_t n_written = 0;
    while (n_written < line->length) {
        ssize_t n = write(STDERR_FILENO, line->text + n_written, line->length - n_written);
        if (n > 0)
            n_written += (size_t)n;
        else if (n < 0 && errno == EAGAIN) /* somebody else made it non-blocking */
            (void)poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
        else if (n < 0 && errno != EINTR)
            return;
    }
}

static void copy_in(const char *text, size_t n)
{
    size_t at = (queue.head + queue.count) % LOG_QUEUE_BYTES;
    size_t n_first = n < LOG_QUEUE_BYTES - at ? n : LOG_QUEUE_BYTES - at;
    memcpy(queue.text + at, text, n_first);
    memcpy(queue.text, text + n_first, n - n_first);
    queue.count += n;
}

/* Up to and with the next newline, which is the only one of a line. */
static void copy_out(struct line *line_out)
{
    line_out->length = 0;
    char byte;
    do {
        assert(queue.count > 0 && line_out->length < LINE_BYTES);
        byte = queue.text[queue.head];
        line_out->text[line_out->length++] = byte;
        queue.head = (queue.head + 1) % LOG_QUEUE_BYTES;
        queue.count--;
    } while (byte != '\n');
}

static void push_line(const struct line *line)
{
    pthread_mutex_lock(&queue.lock);
    if (line->length <= LOG_QUEUE_BYTES - queue.count) {
        copy_in(line->text, line->length);
        atomic_fetch_add(&queue.unwritten, line->length);
    } else {
        atomic_fetch_add(&queue.n_dropped, 1);
    }
    pthread_cond_signal(&queue.filled);
    pthread_mutex_unlock(&queue.lock);
}

static void write_next_line(struct line *line)
{
    pthread_mutex_lock(&queue.lock);
    while (queue.count == 0 && atomic_load(&queue.n_dropped) == atomic_load(&queue.n_reported))
        pthread_cond_wait(&queue.filled, &queue.lock);
    uint64_t n_dropped = atomic_load(&queue.n_dropped);
    bool is_report = queue.count == 0;
    if (!is_report)
        copy_out(line);
    pthread_mutex_unlock(&queue.lock);

    if (!is_report) {
        write_line(line);
        atomic_fetch_sub(&queue.unwritten, line->length);
        return;
    }
    char message[80];
    snprintf(message, sizeof message, "%" PRIu64 " log lines dropped: nobody read them in time",
             n_dropped - atomic_load(&queue.n_reported));
    format_line(line, LOG_WARN, NULL, message);
    write_line(line);
    atomic_store(&queue.n_reported, n_dropped);
}

static void *write_lines(void *arg)
{
    struct line line;
    (void)arg;
    for (;;)
        write_next_line(&line);
    return NULL;
}

static void flush_at_exit(void)
{
    (void)log_flush(EXIT_FLUSH_MS);
}

enum status log_start(struct error *error)
{
    assert(!queue.has_writer);
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, write_lines, NULL);
    if (failed)
        return error_set(error, STATUS_NO_THREAD, "no thread for the log: %s", strerror(failed));
    pthread_setname_np(thread, "log");
    pthread_detach(thread);
    queue.has_writer = true;
    atexit(flush_at_exit);
    return STATUS_OK;
}

static bool is_written(void)
{
    return atomic_load(&queue.unwritten) == 0 &&
           atomic_load(&queue.n_reported) == atomic_load(&queue.n_dropped);
}

bool log_flush(uint32_t limit_ms)
{
    int errno_before = errno;
    for (uint32_t ms = 0; ms < limit_ms && !is_written(); ms++)
        (void)poll(NULL, 0, 1);
    errno = errno_before;
    return is_written();
}

uint64_t log_lines_dropped(void)
{
    return atomic_load(&queue.n_dropped);
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
    format_line(&line, level, request_id ? id : NULL, message);
    if (queue.has_writer)
        push_line(&line);
    else
        write_line(&line);
    errno = errno_before;
}
