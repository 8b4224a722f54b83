/*
 * tenant_file - reads the tokens file: who may call which methods, and how much (docs/tenants.md).
 *
 *     tokens:                            YAML or JSON, which is YAML too
 *       - tenant: acme                   1 .. 64 of A-Z a-z 0-9 . _ -
 *         sha256: 64 hex digits          of the token's text; unique in the file
 *         methods: [Generate, Complete]  left out: the public ones
 *         requests_per_second: 2.5       left out, like what follows: no limit
 *         tokens_per_minute: 60000       prompt and generated
 *         requests_at_once: 8
 *         shares_prefix_cache: family    tenants of one such name share cached prefixes
 *         weight: 3                      1 .. 1000, of what workers compute; left out: 1
 *         priority: -5                   -100 .. 100, of requests that say none; left out: 0
 *         priority_max: 10               that requests may ask for; left out: priority
 *
 * All rows of a tenant must be equal, except sha256 and methods. Unknown, duplicate or malformed keys
 * are refused with FILE:LINE, key and value.
 *
 * Bounds: TENANT_ROWS_MAX rows, 1 MiB.
 * Thread: any; no state.
 */
#pragma once

#include "base/sha256.h"
#include "base/standing.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENANT_NAME_MAX 64u /* bytes */
#define TENANT_ROWS_MAX 4096u

/* The methods that a token may call, as bits. GetState is not among them: it needs the cluster key. */
#define TENANT_METHODS(X)                                                                          \
    X(GENERATE, "Generate", "/kvferry.v1.GenerationService/Generate")                              \
    X(COMPLETE, "Complete", "/kvferry.v1.GenerationService/Complete")                              \
    X(TOKENIZE, "Tokenize", "/kvferry.v1.GenerationService/Tokenize")                              \
    X(DETOKENIZE, "Detokenize", "/kvferry.v1.GenerationService/Detokenize")                        \
    X(LIST_MODELS, "ListModels", "/kvferry.v1.ModelService/ListModels")                            \
    X(GET_MODEL, "GetModel", "/kvferry.v1.ModelService/GetModel")                                  \
    X(REFLECTION, "reflection", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")

enum tenant_method {
#define X(name, word, path) TENANT_##name,
    TENANT_METHODS(X)
#undef X
        TENANT_N_METHODS
};
#define TENANT_METHOD_BIT(method) (1u << (method))
#define TENANT_PUBLIC_METHODS     (TENANT_METHOD_BIT(TENANT_REFLECTION) - 1u) /* those before it */

/* "Generate"; NULL: unknown method. */
const char *tenant_method_name(uint32_t method);
/* Of a gRPC path; TENANT_N_METHODS: not a method for tokens. */
enum tenant_method tenant_method_of_path(const char *path);

struct tenant_row {
    char tenant[TENANT_NAME_MAX + 1];
    char group[TENANT_NAME_MAX + 1]; /* "": shares with no other tenant */
    struct sha256 hash;
    uint32_t methods;                 /* bits */
    uint32_t requests_a_second_milli; /* 0: no limit, as in the next members */
    uint32_t tokens_a_minute;
    uint32_t requests_at_once;
    uint32_t weight; /* 0: 1 */
    int32_t priority, priority_max;
    bool has_priority_max; /* else it equals priority */
    uint32_t line;
};

/* The default priority of a request, and the highest that it may ask for. */
struct tenant_terms {
    struct standing standing;
    int32_t priority_max;
};

/* rows_out: [*n_out] in the file's order; the caller frees it. path: for the sentences. CORRUPT, NO_MEMORY. */
MUST_CHECK enum status tenant_file_parse(const char *text, size_t bytes, const char *path,
                                         struct tenant_row **rows_out, uint32_t *n_out,
                                         struct error *error);
/* As tenant_file_parse and regular_file_read. */
MUST_CHECK enum status tenant_file_read(const char *path, struct tenant_row **rows_out,
                                        uint32_t *n_out, struct error *error);

/* The largest priority that a request of the row may ask for. */
int32_t tenant_row_priority_max(const struct tenant_row *row);
/* Checks the values of a row against each other. INVALID_ARGUMENT with a sentence. */
MUST_CHECK enum status tenant_row_check(const struct tenant_row *row, struct error *error);
/* The tenant's id for workers: not 0, the same in every router. NO_MEMORY, IO_FAILED as sha256_of. */
MUST_CHECK enum status tenant_key_of(const char *tenant, uint64_t *key_out);

/* OK, or INVALID_ARGUMENT with a sentence. */
MUST_CHECK enum status tenant_name_check(const char *name, struct error *error);
/* Sets one key of a row from its text in the file; also for commands that write a row. methods: one word;
 * call it for each. CORRUPT with a sentence: unknown key or bad value. */
MUST_CHECK enum status tenant_row_set(struct tenant_row *row, const char *key, const char *value,
                                      struct error *error);
