/*
 * ctx_options - what a context worker's engine cannot be made of.
 *
 * Thread: any.
 */
#pragma once

#include "ctx_worker/ctx_engine.h"

/* INVALID_ARGUMENT: error names the option, its value and what is wanted. */
MUST_CHECK enum status ctx_options_check(const struct ctx_engine_options *options,
                                         struct error *error);
