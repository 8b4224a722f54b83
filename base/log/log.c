#include "base/log/log.h"

#include "base/log/log_line.h"

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

enum { EXIT_FLUSH_MS = 1000 };

static const char *const LEVEL_NAMES[] = {"error", "warn", "info", "debug"};

static char log_role[LOG_ROLE_BYTES] = "kvferry";
static char log_name[LOG_NAME_BYTES];
static atomic_bool log_has_name; /* log_name is set and does not change any more */
static atomic_int log_level_now = LOG_INFO;
static atomic_bool log_has_access = true;
static bool log_as_json;

/* Lines that wait for the writer thread. The atomics are written under the lock, or only by the writer,
 * and read by log_flush in a signal handler. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    bool has_writer;
    size_t head, count;      /* bytes in text; always whole lines */
    atomic_size_t unwritten; /* bytes that callers have queued and that are not yet written */
    atomic_uint_fast64_t n_dropped;
    atomic_uint_fast64_t n_reported; /* dropped lines that a log line has reported */
    char text[LOG_QUEUE_BYTES];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER};

void log_init(const char *role, enum log_level level, enum log_format format)
{
    assert(role && strlen(role) < LOG_ROLE_BYTES);
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

void log_set_name(const char *name)
{
    assert(!atomic_load(&log_has_name));
    snprintf(log_name, sizeof log_name, "%s", name);
    atomic_store_explicit(&log_has_name, true, memory_order_release);
}

void log_set_access(bool is_on)
{
    atomic_store_explicit(&log_has_access, is_on, memory_order_relaxed);
}

bool log_access_is_on(void)
{
    return atomic_load_explicit(&log_has_access, memory_order_relaxed) && log_is_on(LOG_INFO);
}

static void format_line(struct log_line *line, enum log_level level, const struct log_about *about,
                        const char *event, const struct log_field *fields, size_t n_fields)
{
    bool has_name = atomic_load_explicit(&log_has_name, memory_order_acquire);
    const struct log_line_head head = {
        .level = LEVEL_NAMES[level],
        .role = log_role,
        .name = has_name ? log_name : "",
        .is_json = log_as_json,
    };
    log_line_format(line, &head, about, event, fields, n_fields);
}

/* ---- writing ---- */

/* One write for each line, so that lines of several threads and processes do not mix. A failure
 * cannot be reported anywhere. */
static void write_line(const struct log_line *line)
{
    size_t n_written = 0;
    while (n_written < line->length) {
        ssize_t n = write(STDERR_FILENO, line->text + n_written, line->length - n_written);
        if (n > 0)
            n_written += (size_t)n;
        else if (n < 0 && errno == EAGAIN) /* another process made it non-blocking */
            (void)poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
        else if (n < 0 && errno != EINTR)
            return;
    }
}

static void copy_in(const char *text, size_t n)
{
    assert(n <= LOG_QUEUE_BYTES - queue.count);
    size_t at = (queue.head + queue.count) % LOG_QUEUE_BYTES;
    size_t n_first = n < LOG_QUEUE_BYTES - at ? n : LOG_QUEUE_BYTES - at;
    memcpy(queue.text + at, text, n_first);
    memcpy(queue.text, text + n_first, n - n_first);
    queue.count += n;
}

/* The number of bytes up to and including the next newline. A line has exactly one. */
static void copy_out(struct log_line *line_out)
{
    line_out->length = 0;
    char byte;
    do {
        assert(queue.count > 0 && line_out->length < LOG_LINE_BYTES);
        byte = queue.text[queue.head];
        line_out->text[line_out->length++] = byte;
        queue.head = (queue.head + 1) % LOG_QUEUE_BYTES;
        queue.count--;
    } while (byte != '\n');
}

static void push_line(const struct log_line *line)
{
    assert(line->length > 0 && line->text[line->length - 1] == '\n');
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

static void write_next_line(struct log_line *line)
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
    snprintf(message, sizeof message, "%" PRIu64 " log lines dropped: nothing read them in time",
             n_dropped - atomic_load(&queue.n_reported));
    format_line(line, LOG_WARN, NULL, message, NULL, 0);
    write_line(line);
    atomic_store(&queue.n_reported, n_dropped);
}

static void *write_lines(void *arg)
{
    struct log_line line;
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

void log_fields(enum log_level level, const struct log_about *about, const char *event,
                const struct log_field *fields, size_t n_fields)
{
    assert(level <= LOG_DEBUG);
    if (!log_is_on(level))
        return;
    int errno_before = errno;
    struct log_line line;
    format_line(&line, level, about, event, fields, n_fields);
    if (queue.has_writer)
        push_line(&line);
    else
        write_line(&line);
    errno = errno_before;
}

void log_write(enum log_level level, const char *request_id, const char *format, ...)
{
    assert(level <= LOG_DEBUG);
    if (!log_is_on(level))
        return;

    int errno_before = errno;
    char message[LOG_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length >= LOG_MESSAGE_BYTES)
        memcpy(message + LOG_MESSAGE_BYTES - 4, "...", 4);
    else if (length < 0)
        snprintf(message, sizeof message, "%s", format);
    errno = errno_before;
    log_fields(level, &(struct log_about){.request_id = request_id}, message, NULL, 0);
}
