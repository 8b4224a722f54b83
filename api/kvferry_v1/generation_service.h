/*
 * generation_service - the public gRPC service of kvferry.v1: Generate, Complete, Tokenize, Detokenize.
 *
 * Thread: handlers on the queue thread, long texts on the text thread.
 */
#pragma once

#include "api/kvferry_v1/text_calls.h"
#include "api/kvferry_v1/v1_call.h"
#include "router/intake.h"

/* Set before the port opens; it stays where it is. */
struct generation_service {
    struct intake *intake;
    struct text_calls texts;
    struct v1_scratch scratch;
};

/* The row of a server's table. */
struct rpc_service generation_service_row(struct generation_service *service);
