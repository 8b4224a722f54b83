/*
 * status_details - encodes and decodes how a call failed (rpc_error.h).
 *
 * On the wire: a google.rpc.Status in the trailer grpc-status-details-bin, with ErrorInfo (domain "kvferry", reason
 * from the status table), BadRequest if a field is named, and RetryInfo if a retry can help. It is under 4 KiB in all.
 * ErrorInfo.metadata:
 *
 *     request_id      the id of the request in logs
 *     retryable       "true": the client may send the same request again; else "false"
 *     retry_after_ms  if retryable: the shortest wait, as in RetryInfo
 *     field, value    the bad field and its value, if a field is named
 *     scope           "caller", only with QUEUE_FULL: this caller has used up its share. It is our SHARE_FULL; older builds
 *                     only see that the queue is full
 *
 * Thread: any; no state.
 */
#pragma once

#include "rpc/rpc_error.h"

#include <stddef.h>
#include <stdint.h>

#define RPC_ERROR_DOMAIN       "kvferry"
#define RPC_STATUS_DETAILS_MAX 2816 /* bytes of an encoded google.rpc.Status */

/* Returns the bytes written into bytes_out, at most RPC_STATUS_DETAILS_MAX. */
size_t rpc_error_encode(const struct rpc_error *error, uint8_t bytes_out[RPC_STATUS_DETAILS_MAX]);

/* Decodes what a peer sent. If details are empty or malformed, the code and the message decide. */
void rpc_error_decode(int grpc_code, const char *message, size_t message_bytes,
                      const uint8_t *details, size_t n_details, struct rpc_error *error_out);
