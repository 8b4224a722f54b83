#include "rpc/rpc_error.h"

#include "base/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum grpc_code {
    CODE_OK = 0,
    CODE_CANCELLED = 1,
    CODE_INVALID_ARGUMENT = 3,
    CODE_DEADLINE_EXCEEDED = 4,
    CODE_NOT_FOUND = 5,
    CODE_ALREADY_EXISTS = 6,
    CODE_PERMISSION_DENIED = 7,
    CODE_RESOURCE_EXHAUSTED = 8,
    CODE_FAILED_PRECONDITION = 9,
    CODE_ABORTED = 10,
    CODE_OUT_OF_RANGE = 11,
    CODE_UNIMPLEMENTED = 12,
    CODE_UNAVAILABLE = 14,
    CODE_UNAUTHENTICATED = 16,
};

enum status grpc_status(int grpc_code)
{
    switch (grpc_code) {
    case CODE_OK:
        return STATUS_OK;
    case CODE_CANCELLED:
        return STATUS_CANCELLED;
    case CODE_INVALID_ARGUMENT:
    case CODE_OUT_OF_RANGE:
        return STATUS_INVALID_ARGUMENT;
    case CODE_DEADLINE_EXCEEDED:
        return STATUS_TIMED_OUT;
    case CODE_NOT_FOUND:
        return STATUS_NOT_FOUND;
    case CODE_ALREADY_EXISTS:
        return STATUS_DUPLICATE_REQUEST;
    case CODE_PERMISSION_DENIED:
        return STATUS_NOT_ALLOWED;
    case CODE_UNAUTHENTICATED:
        return STATUS_UNAUTHENTICATED;
    case CODE_RESOURCE_EXHAUSTED:
        return STATUS_QUEUE_FULL;
    case CODE_FAILED_PRECONDITION:
    case CODE_ABORTED:
        return STATUS_NOT_HELD;
    case CODE_UNIMPLEMENTED:
        return STATUS_UNIMPLEMENTED;
    case CODE_UNAVAILABLE:
        return STATUS_PEER_LOST;
    default:
        return STATUS_BUG;
    }
}

void rpc_error_copy_text(char *out, size_t out_bytes, const char *text)
{
    utf8_clean(text ? text : "", text ? strlen(text) : 0, out, out_bytes);
}

void rpc_error_set(struct rpc_error *error, enum status status, const char *field,
                   const char *value, const char *format, ...)
{
    char sentence[2 * sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sentence, sizeof sentence, format, arguments);
    va_end(arguments);

    memset(error, 0, sizeof *error);
    error->status = status;
    error->grpc_code = status_grpc_code(status);
    rpc_error_copy_text(error->reason, sizeof error->reason, status_reason(status));
    rpc_error_copy_text(error->message, sizeof error->message, sentence);
    rpc_error_copy_text(error->field, sizeof error->field, field);
    rpc_error_copy_text(error->value, sizeof error->value, value);
}

bool rpc_error_is_retryable(const struct rpc_error *error)
{
    if (error->retry_after_ms > 0)
        return true;
    int code = status_grpc_code(error->status);
    return (code == CODE_RESOURCE_EXHAUSTED || code == CODE_UNAVAILABLE) &&
           error->status != STATUS_SLOW_READER && error->status != STATUS_REPLY_TOO_LONG;
}
