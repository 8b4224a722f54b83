/*
 * unwanted_call - whether the answer to a call can still reach anybody, for work that takes long.
 *
 * A call is over when its client left, its deadline has passed, or the server has ended it (at the end
 * of a drain).
 *
 * Thread: any.
 */
#pragma once

#include "rpc/server/call.h"

/* The call is over. For encode_input: call is a struct rpc_call. */
bool unwanted_call_look(void *call);
/* How it ended: TIMED_OUT, CANCELLED, or as it was ended from here. */
enum status unwanted_call_status(struct rpc_call *call);
