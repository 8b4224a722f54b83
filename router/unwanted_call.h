/*
 * unwanted_call - whether the answer to a call can still reach anybody, for work that takes long.
 *
 * Thread: any.
 */
#pragma once

#include "rpc/call.h"

/* The call is over, or its deadline has passed. For encode_input: call is a struct rpc_call. */
bool unwanted_call_look(void *call);
/* Why, when it was: TIMED_OUT, CANCELLED, or how the call was ended from here. */
enum status unwanted_call_status(struct rpc_call *call);
