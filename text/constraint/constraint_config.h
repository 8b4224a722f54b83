/*
 * constraint_config - the rows of roles that are given constraints, and how they reach constraint.h.
 *
 * All roles check what a request brings: CONSTRAINT_CONFIG_ROWS(X). Those that compile it have CONSTRAINT_COMPILER_ROWS(X), too.
 */
#pragma once

#include "base/clock.h"
#include "base/config/config.h"

#define CONSTRAINT_CONFIG_ROWS(X)                                                                  \
    X(constraint_bytes_max, SIZE(1024, 4194304), "256K", "bytes",                                  \
      "longest JSON schema, regex, grammar or list of choices of one request")                     \
    X(constraint_grammar_bytes_max, SIZE(1024, 4194304), "64K", "bytes",                           \
      "longest regex or grammar of one request")                                                   \
    X(constraint_choices_max, U32(1, 1024), "1024", "texts", "most choices of one request")

#define CONSTRAINT_COMPILER_ROWS(X)                                                                \
    X(constraint_compile_ms, DURATION_MS(10, 600000), "10s", "ms",                                 \
      "longest time to compile the constraint of one request")                                     \
    X(constraints_kept, U32(1, 1024), "8", "",                                                     \
      "compiled constraints kept for further requests with the same text")                         \
    X(constraint_memory_max, SIZE(16777216, 1099511627776), "512M", "bytes",                       \
      "memory of all constraints, beyond which none is compiled and the large ones end")

/* The members of struct constraint_limits that come from these rows. */
#define CONSTRAINT_LIMITS(config)                                                                  \
    .bytes_max = (config)->constraint_bytes_max,                                                   \
    .grammar_bytes_max = (config)->constraint_grammar_bytes_max,                                   \
    .choices_max = (config)->constraint_choices_max
#define CONSTRAINT_COMPILER_LIMITS(config)                                                         \
    CONSTRAINT_LIMITS(config), .compile_ns = (config)->constraint_compile_ms * NS_PER_MS,          \
                               .n_kept = (config)->constraints_kept,                               \
                               .memory_max = (config)->constraint_memory_max
