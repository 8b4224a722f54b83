#include "base/status.h"

#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct status_row {
    const char *name, *reason, *text;
    int grpc_code;
};

static const struct status_row ROWS[] = {
#define X(name, grpc, reason, text) {#name, reason, text, grpc},
    STATUS_TABLE(X)
#undef X
};

enum { N_ROWS = STATUS_COUNT };

static const struct status_row *row_of(enum status status)
{
    assert((unsigned)status < N_ROWS);
    return &ROWS[status];
}

const char *status_name(enum status status)
{
    return row_of(status)->name;
}

const char *status_text(enum status status)
{
    return row_of(status)->text;
}

const char *status_reason(enum status status)
{
    return row_of(status)->reason;
}

int status_grpc_code(enum status status)
{
    return row_of(status)->grpc_code;
}

const char *status_grpc_name(int grpc_code)
{
    static const char *const NAMES[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    };
    assert(grpc_code >= 0 && grpc_code < (int)(sizeof NAMES / sizeof *NAMES));
    return NAMES[grpc_code];
}

enum status status_from_reason(const char *reason)
{
    assert(reason);
    for (int i = 0; i < N_ROWS; i++)
        if (strcmp(ROWS[i].reason, reason) == 0)
            return (enum status)i;
    return STATUS_BUG;
}

enum status errno_status(int error_number)
{
    switch (error_number) {
    case 0:
        return STATUS_OK;
    case ENOENT:
    case ENOTDIR:
        return STATUS_NOT_FOUND;
    case ENOMEM:
        return STATUS_NO_MEMORY;
    case EINVAL:
    case ENAMETOOLONG:
        return STATUS_INVALID_ARGUMENT;
    case ETIMEDOUT:
        return STATUS_TIMED_OUT;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case EHOSTUNREACH:
    case ENETUNREACH:
        return STATUS_PEER_LOST;
    case ENOSYS:
    case EOPNOTSUPP:
        return STATUS_UNSUPPORTED;
    default:
        return STATUS_IO_FAILED;
    }
}

/* Invalid bytes are kept: a path may have them. */
static void hide_controls(char *text)
{
    size_t n_bytes = strlen(text), length;
    for (size_t at = 0; at < n_bytes; at += length) {
        uint32_t codepoint = 0;
        bool is_whole = utf8_sequence((const uint8_t *)text + at, n_bytes - at, &length) ==
                        UTF8_WHOLE;
        if (is_whole)
            utf8_read(text + at, &codepoint);
        if (is_whole && utf8_is_control(codepoint))
            memset(text + at, '?', length);
    }
}

void error_write(struct error *error, const char *format, ...)
{
    if (!error)
        return;

    int errno_before = errno;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    if (length < 0)
        snprintf(error->text, sizeof error->text, "%s", format);
    hide_controls(error->text);
    errno = errno_before;
}
