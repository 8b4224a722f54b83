/*
 * log - one line for each event: readable text on a terminal, JSON elsewhere.
 *
 * A line has the event first, then the fields, in lower case:
 *
 *     log_event(LOG_WARN, &about, "KV transfer failed", LOG_U64("blocks", 12), LOG_TEXT("why", "two words"));
 *
 *     12:00:00.123 warn  gen-worker  KV transfer failed blocks=12 why="two words"  request=abc
 *     {"ts":"2026-01-01T12:00:00.123Z","level":"warn","role":"gen-worker","name":"10.0.0.9:50052",
 *      "msg":"KV transfer failed","request_id":"abc","blocks":12,"why":"two words"}          (one line)
 *
 * In JSON numbers are JSON numbers. Keys of every line: ts, level, role, msg. Keys of some lines: name, request_id,
 * trace_id, peer; and cut, if something did not fit. No field may have one of these names.
 *
 * info: an event that a person wants to see once; debug: for each object; nothing for each token. Control characters,
 * and characters that change the direction of text (utf8_is_control), are escaped in both forms. No text of a prompt is
 * ever written.
 *
 * A line is one write to standard error: by the caller, and after log_start by a writer thread of the log, so that a
 * pipe without a reader blocks only that thread. (Standard error is not made non-blocking, because that would affect
 * all processes that share it, for example the shell.)
 *
 * Bounds: a message of 1,499 bytes, a request id of 128, the text of a field of 512, a whole line of LOG_LINE_BYTES
 * (log_line.h). Longer ones are cut, and the line stays well-formed. LOG_QUEUE_BYTES of lines wait for the writer
 * thread; lines that do not fit are dropped and counted, and a line reports their number when the queue is empty.
 * Global state: role, name, level, form, access lines and queue. A process has one log. The code that first knows a
 * cause logs it.
 * Thread: any. Call log_init and log_start before other threads start.
 */
#pragma once

#include "base/status.h"
#include "base/trace_context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOG_QUEUE_BYTES (256 * 1024)

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_FORMAT_AUTO, LOG_FORMAT_HUMAN, LOG_FORMAT_JSON };

/* role names the process in every line ("ctx-worker"); copied, at most 31 bytes. */
void log_init(const char *role, enum log_level level, enum log_format format);
/* The name of the process, in addition to its role; copied, at most 127 bytes. Call it once; earlier
 * lines have no name. Any thread. */
void log_set_name(const char *name);
/* Call it once, after the last fork: from then on no caller waits for standard error. At exit the
 * process waits at most a second for unwritten lines. NO_THREAD. */
MUST_CHECK enum status log_start(struct error *error);
/* Waits until all lines are written, for at most about limit_ms. True: all are written. Safe in a signal
 * handler. */
bool log_flush(uint32_t limit_ms);
uint64_t log_lines_dropped(void); /* since the start */

void log_set_level(enum log_level level);
bool log_is_on(enum log_level level);
/* INVALID_ARGUMENT: no level has that name. */
MUST_CHECK enum status log_level_parse(const char *name, enum log_level *level_out);

/* What a line is about; each may be NULL. Borrowed. */
struct log_about {
    const char *request_id;
    const struct trace_context *trace;
    const char *peer; /* the other end of the connection */
};

enum log_field_kind { LOG_FIELD_U64, LOG_FIELD_HEX, LOG_FIELD_F64, LOG_FIELD_TEXT };

/* key: a literal, [a-z_], at most 40 bytes. A text that is NULL or "", and a number that is not finite,
 * is left out with its key. A fraction has three digits. */
struct log_field {
    const char *key;
    enum log_field_kind kind;
    union {
        uint64_t u64;
        double f64;
        const char *text;
    };
};

#define LOG_U64(name, number)                                                                      \
    {                                                                                              \
        .key = (name), .kind = LOG_FIELD_U64, .u64 = (number)                                      \
    }
/* A 64-bit id, for example an incarnation: 16 hexadecimal digits, in JSON a string. */
#define LOG_HEX(name, number)                                                                      \
    {                                                                                              \
        .key = (name), .kind = LOG_FIELD_HEX, .u64 = (number)                                      \
    }
#define LOG_F64(name, number)                                                                      \
    {                                                                                              \
        .key = (name), .kind = LOG_FIELD_F64, .f64 = (number)                                      \
    }
#define LOG_TEXT(name, words)                                                                      \
    {                                                                                              \
        .key = (name), .kind = LOG_FIELD_TEXT, .text = (words)                                     \
    }

/* about may be NULL. */
void log_fields(enum log_level level, const struct log_about *about, const char *event,
                const struct log_field *fields, size_t n_fields);

#define log_event(level, about, event, ...)                                                        \
    log_fields(level, about, event, (const struct log_field[]){__VA_ARGS__},                       \
               sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

/* The access line: one at the end of each request, level info. The row access_log switches these
 * lines off. */
void log_set_access(bool is_on);
bool log_access_is_on(void);
#define log_access(about, event, ...)                                                              \
    do {                                                                                           \
        if (log_access_is_on())                                                                    \
            log_event(LOG_INFO, about, event, __VA_ARGS__);                                        \
    } while (0)

/* A sentence without fields. request_id NULL: the line is about no request. */
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
