/*
 * unwanted_call - whether a call is over, so that long work for it can stop.
 *
 * A call is over when its client left, its deadline has passed, or the server has ended it (at the end
 * of a drain).
 *
 * Thread: any.
 */
#pragma once

#include "rpc/server/call.h"

/* True: the call is over. For encode_input: call is a struct rpc_call. */
bool unwanted_call_look(void *call);
/* How it ended: TIMED_OUT, CANCELLED, or the status with which this side ended it. */
enum status unwanted_call_status(struct rpc_call *call);
