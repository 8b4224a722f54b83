/*
 * constraint_request - checks what a request says its reply's text must be. Whether it can be compiled only a worker knows.
 *
 * Thread: any; no state.
 */
#pragma once

#include "rpc/rpc_error.h"
#include "sampling_params/reply_constraint.h"
#include "text/constraint/constraint.h"

/* As constraint_check; error has field, and the text's beginning as its value. */
MUST_CHECK enum status constraint_request_check(const struct reply_constraint *asked,
                                                const struct constraint_limits *limits,
                                                struct rpc_error *error);

/* The field at the beginning of a worker's sentence about a constraint. False: it is about something else. */
bool constraint_request_field(const char *sentence, char *field_out, size_t field_bytes);
