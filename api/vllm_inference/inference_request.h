/*
 * inference_request - a GenerateRequest of vllm.Inference as engine_ask.
 *
 * Thread: any; no state.
 */
#pragma once

#include "api/engine/engine_ask.h"
#include "api/engine/engine_fields.h"
#include "proto/vllm/inference.pb-c.h"

/* What the reading depends on. */
struct inference_limits {
    bool is_unary;        /* Generate: one choice in one message */
    int32_t priority_max; /* that a request may have; what is above has this */
};

/* What the protocol calls the fields of what is read here. */
extern const struct engine_field inference_request_fields[];

/* ask_out borrows from message. INVALID_ARGUMENT: the sentence names what is not served, or the id that is too long. IO_FAILED: no
 * random bits for a request that is to find no cached prefix. */
MUST_CHECK enum status inference_request_read(const Vllm__GenerateRequest *message,
                                              const struct inference_limits *limits,
                                              struct engine_ask *ask_out, struct rpc_error *error);
