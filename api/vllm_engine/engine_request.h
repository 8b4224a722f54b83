/*
 * engine_request - a GenerateRequest of VllmEngine as engine_ask.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/engine/engine_ask.h"
#include "api/engine/engine_fields.h"
#include "proto/vllm/grpc/engine/vllm_engine.pb-c.h"

/* What the protocol calls the fields of what is read here. */
extern const struct engine_field engine_request_fields[];

/* ask_out borrows from message. INVALID_ARGUMENT: the sentence names what is not served, or the id that is too long. */
MUST_CHECK enum status engine_request_read(const Vllm__Grpc__Engine__GenerateRequest *message,
                                           struct engine_ask *ask_out, struct rpc_error *error);
