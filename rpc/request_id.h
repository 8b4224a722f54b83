/*
 * request_id - the id of a request in logs, replies and errors.
 *
 * 1 .. 128 printable ASCII characters; the first and the last are no space, as metadata need not
 * preserve those. A client sends it in the metadata x-request-id. The server returns it there: in the
 * headers before the first message of a reply, or in the trailers of an error. The server draws an id if
 * the client sent none, or only spaces.
 *
 * Thread: any; no state.
 */
#pragma once

#include "rpc/rpc_error.h"

#define RPC_REQUEST_ID_KEY "x-request-id"

/* INVALID_ARGUMENT: error names field and says what is wrong with the id. */
MUST_CHECK enum status rpc_request_id_check(const char *field, const char *id, size_t bytes,
                                            struct rpc_error *error);

/* Draws 32 hexadecimal digits; "": the kernel gives no random bits. */
void rpc_request_id_draw(char id_out[RPC_REQUEST_ID_MAX + 1]);
