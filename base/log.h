/*
 * log - one line an event, for people on a terminal, as JSON otherwise.
 *
 * Event first, then values, lower case: `hand-over done blocks=12 ms=0.8`. info: a person wants it
 * once; debug: per object; nothing per token. Control characters are escaped in both forms,
 * and so are those by which text changes its direction (utf8_is_control).
 *
 *     12:00:00.123 info  ctx-worker  hand-over done blocks=12  request=abc
 *     {"ts":"2026-01-01T12:00:00.123Z","level":"info","role":"ctx-worker","msg":...,"request_id":...}
 *
 * A line is one write to standard error: by its caller, and after log_start by a thread of the log's
 * own, so that a pipe that nobody reads stops nothing else. (Standard error is not made non-blocking:
 * that would reach everyone who shares it, the shell's terminal for one.)
 *
 * Bounds: a message of 1,499 bytes, a request id of 127; longer ones are cut. LOG_QUEUE_BYTES of
 * lines wait for the thread; what does not fit is dropped, counted, and told in a line when all that
 * waited is written.
 * Global state: role, level, form and queue. A process has one log, and who first knows a cause logs
 * it, wherever that is.
 * Thread: any. log_init and log_start before the others start.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_QUEUE_BYTES (256 * 1024)

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_FORMAT_AUTO, LOG_FORMAT_HUMAN, LOG_FORMAT_JSON };

/* role names the process in every line ("ctx-worker"); copied, at most 31 bytes. */
void log_init(const char *role, enum log_level level, enum log_format format);
/* Once a process, after its last fork: from now on nobody waits for standard error. Exit waits for
 * what is unwritten, for a second at most. NO_THREAD. */
MUST_CHECK enum status log_start(struct error *error);
/* Waits until everything is written, for about limit_ms at most. True: it is. Safe in a signal handler. */
bool log_flush(uint32_t limit_ms);
uint64_t log_lines_dropped(void); /* since the start */

void log_set_level(enum log_level level);
bool log_is_on(enum log_level level);
/* INVALID_ARGUMENT: no level of that name. */
MUST_CHECK enum status log_level_parse(const char *name, enum log_level *level_out);

/* request_id may be NULL: the line concerns no request. */
void log_write(enum log_level level, const char *request_id, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#define log_error(...) log_write(LOG_ERROR, NULL, __VA_ARGS__)
#define log_warn(...)  log_write(LOG_WARN, NULL, __VA_ARGS__)
#define log_info(...)  log_write(LOG_INFO, NULL, __VA_ARGS__)
#define log_debug(...)                                                                             \
    do {                                                                                           \
        if (log_is_on(LOG_DEBUG))                                                                  \
            log_write(LOG_DEBUG, NULL, __VA_ARGS__);                                               \
    } while (0)
