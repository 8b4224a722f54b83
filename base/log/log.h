/*
 * log - one line an event, for people on a terminal, as JSON otherwise.
 *
 * Event first, then fields, lower case:
 *
 *     log_event(LOG_INFO, &about, "hand-over done", LOG_U64("blocks", 12), LOG_TEXT("why", "two words"));
 *
 *     12:00:00.123 info  ctx-worker  hand-over done blocks=12 why="two words"  request=abc
 *     {"ts":"2026-01-01T12:00:00.123Z","level":"info","role":"ctx-worker","name":"10.0.0.9:50052",
 *      "msg":"hand-over done","request_id":"abc","blocks":12,"why":"two words"}          (one line)
 *
 * In JSON a number is a number. Keys of every line: ts, level, role, msg; name, request_id, trace_id, peer
 * where there is one; cut where something found no room. A field has none of these names.
 *
 * info: a person wants it once; debug: per object; nothing per token. Control characters are escaped in
 * both forms, and so are those by which text changes its direction (utf8_is_control). Nothing of a prompt
 * is ever written.
 *
 * A line is one write to standard error: by its caller, and after log_start by a thread of the log's
 * own, so that a pipe that nobody reads stops nothing else. (Standard error is not made non-blocking:
 * that would reach everyone who shares it, the shell's terminal for one.)
 *
 * Bounds: a message of 1,499 bytes, a request id of 128, a field's text of 512, all of them of
 * LOG_LINE_BYTES (log_line.h); longer ones are cut, and the line stays whole. LOG_QUEUE_BYTES of
 * lines wait for the thread; what does not fit is dropped, counted, and told in a line when all that
 * waited is written.
 * Global state: role, name, level, form, access lines and queue. A process has one log, and who first knows a cause logs
 * it, wherever that is.
 * Thread: any. log_init and log_start before the others start.
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
/* How the process is called beside its role; copied, at most 127 bytes. Once; until then lines have none.
 * Any thread. */
void log_set_name(const char *name);
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

/* What a line is about; each may be NULL. Borrowed. */
struct log_about {
    const char *request_id;
    const struct trace_context *trace;
    const char *peer; /* the other end */
};

enum log_field_kind { LOG_FIELD_U64, LOG_FIELD_HEX, LOG_FIELD_F64, LOG_FIELD_TEXT };

/* key: a literal, [a-z_], at most 40 bytes. A text that is NULL or "", and a number that is none, is left
 * out with its key; a number with a fraction has three digits of it. */
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
/* A name of 64 bits, an incarnation for one: 16 hexadecimal digits, in JSON a text. */
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

/* One line a request at its end, info: written unless they are switched off (row access_log). */
void log_set_access(bool is_on);
bool log_access_is_on(void);
#define log_access(about, event, ...)                                                              \
    do {                                                                                           \
        if (log_access_is_on())                                                                    \
            log_event(LOG_INFO, about, event, __VA_ARGS__);                                        \
    } while (0)

/* A sentence without fields. request_id may be NULL: the line concerns no request. */
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
