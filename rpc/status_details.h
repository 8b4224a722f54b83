/*
 * status_details - how a call failed, on the wire.
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

#include "rpc/rpc_error.h"

#include <stddef.h>
#include <stdint.h>

#define RPC_ERROR_DOMAIN       "kvferry"
#define RPC_STATUS_DETAILS_MAX 2816 /* bytes of an encoded google.rpc.Status */

/* Returns the bytes written into bytes_out, at most RPC_STATUS_DETAILS_MAX. */
size_t rpc_error_encode(const struct rpc_error *error, uint8_t bytes_out[RPC_STATUS_DETAILS_MAX]);

/* What a peer sent: details may be empty or rubbish, then the code and the message decide. */
void rpc_error_decode(int grpc_code, const char *message, size_t message_bytes,
                      const uint8_t *details, size_t n_details, struct rpc_error *error_out);
