/*
 * request_id - what a request is called in logs, replies and errors.
 *
 * 1 .. 128 printable ASCII characters, the first and the last no space: metadata need not keep those. A
 * client names it in the metadata x-request-id, in which the server also tells it: in the headers before
 * the first message of a reply, in the trailers of an error. Drawn when no name came, or spaces alone.
 *
 * Thread: any; no state.
 */
#pragma once

#include "rpc/rpc_error.h"

#define RPC_REQUEST_ID_KEY "x-request-id"

/* INVALID_ARGUMENT: error says of field what is wrong with the id. */
MUST_CHECK enum status rpc_request_id_check(const char *field, const char *id, size_t bytes,
                                            struct rpc_error *error);

/* 32 hexadecimal digits, "" when the kernel gives no random bits. */
void rpc_request_id_draw(char id_out[RPC_REQUEST_ID_MAX + 1]);
