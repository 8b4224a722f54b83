/*
 * rpc_error - how a call failed: status, sentence, and the bad field.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RPC_REQUEST_ID_MAX 128u /* bytes */

struct rpc_error {
    enum status status;
    int grpc_code;           /* as the peer sent it; set by decoding, ignored by encoding */
    uint32_t retry_after_ms; /* 0: the default of the status, if it can be retried at all */
    char reason[48];         /* as the peer sent it, also when our table has no such row */
    char message[320];       /* the sentence */
    char field[96];          /* path of the bad field; "": none */
    char value[96];          /* its value; "": none */
    char request_id[RPC_REQUEST_ID_MAX + 1]; /* set by the server, and by decoding */
};

/* field and value may be NULL. They and the sentence are cut to size between two characters, and
 * control characters and invalid UTF-8 become '?'. */
void rpc_error_set(struct rpc_error *error, enum status status, const char *field,
                   const char *value, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Copies one such text. NULL: "". */
void rpc_error_copy_text(char *out, size_t out_bytes, const char *text);

/* Whether the caller may send the same request again. */
bool rpc_error_is_retryable(const struct rpc_error *error);

/* The status for a gRPC code without details; an unknown code is BUG. */
enum status grpc_status(int grpc_code);
