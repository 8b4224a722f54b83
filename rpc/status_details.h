/*
 * status_details - how a call failed, in our words and on the wire.
 *
 * On the wire: google.rpc.Status in the trailer grpc-status-details-bin, holding ErrorInfo (domain
 * "kvferry", reason of the status table), BadRequest when a field is named, RetryInfo when trying again can
 * help. All of it is under 4 KiB. ErrorInfo.metadata:
 *
 *     request_id      what logs know the request by
 *     retryable       "true": the same request may be sent again; else "false"
 *     retry_after_ms  when it is: the least wait, as in RetryInfo
 *     field, value    what was bad, when a field is named
 *     scope           "caller": of QUEUE_FULL: this caller alone has its share. Our SHARE_FULL, of which older builds know
 *                     no more than that the queue is full
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RPC_ERROR_DOMAIN       "kvferry"
#define RPC_STATUS_DETAILS_MAX 2816 /* bytes of an encoded google.rpc.Status */
#define RPC_REQUEST_ID_MAX     128u /* bytes */

struct rpc_error {
    enum status status;
    int grpc_code;           /* as the peer sent it; set by decoding, ignored by encoding */
    uint32_t retry_after_ms; /* 0: the row's default, if it can be retried at all */
    char reason[48];         /* as the peer sent it, also when our table has no such row */
    char message[320];       /* the sentence */
    char field[96];          /* path of the bad field, "" for none */
    char value[96];          /* what it held, "" for none */
    char request_id[RPC_REQUEST_ID_MAX + 1]; /* set by who answers the call, and by decoding */
};

/* field and value may be NULL; they and the sentence are cut to size at a character's border,
 * and control characters and invalid UTF-8 become '?'. */
void rpc_error_set(struct rpc_error *error, enum status status, const char *field,
                   const char *value, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Whether the caller may send the same request again. */
bool rpc_error_is_retryable(const struct rpc_error *error);

/* Returns the bytes written into bytes_out, at most RPC_STATUS_DETAILS_MAX. */
size_t rpc_error_encode(const struct rpc_error *error, uint8_t bytes_out[RPC_STATUS_DETAILS_MAX]);

/* What a peer sent: details may be empty or rubbish, then the code and the message decide. */
void rpc_error_decode(int grpc_code, const char *message, size_t message_bytes,
                      const uint8_t *details, size_t n_details, struct rpc_error *error_out);

/* The status that a bare gRPC code means to us; a code that is none is BUG. */
enum status grpc_status(int grpc_code);
