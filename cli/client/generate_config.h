/* generate_config - the flags of `kvferry generate`; flags that are not given leave their fields of
 * the request unset. */
#pragma once

#include "cli/client/server_tls.h"

#define GENERATE_CONFIG(X)                                                                         \
    X(server, STRING, "127.0.0.1:50051", "", "address of the router")                              \
    X(model, STRING, "", "", "model folder: start a server for this one request")                  \
    X(prompt_file, STRING, "", "", "file with the prompt; - or no prompt at all: standard input")  \
    X(max_tokens, U32(1, 16777216), "256", "tokens", "most tokens to generate")                    \
    X(temperature, F64(0, 100), "1", "", "0: greedy; not given: the model's default")              \
    X(top_k, U32(0, 4294967295), "0", "tokens",                                                    \
      "sample from this many of the likeliest tokens; 0: all; not given: the model's default")     \
    X(top_p, F64(0, 1), "1", "",                                                                   \
      "sample from the likeliest tokens with this total probability; not given: the model's "      \
      "default")                                                                                   \
    X(min_p, F64(0, 1), "0", "", "lowest probability of a token, relative to the likeliest one")   \
    X(repetition_penalty, F64(0, 100), "1", "",                                                    \
      "factor against repeated tokens; not given: the model's default")                            \
    X(presence_penalty, F64(-2, 2), "0", "", "penalty for tokens that were generated before")      \
    X(frequency_penalty, F64(-2, 2), "0", "",                                                      \
      "penalty for each time a token was generated before")                                        \
    X(seed, U64(0, CONFIG_NO_MAX), "0", "",                                                        \
      "seed of the sampling; not given: the server chooses one")                                   \
    X(stop, LIST, "", "", "text that ends the reply")                                              \
    X(add_special_tokens, BOOL, "yes", "",                                                         \
      "put the tokenizer's special tokens before the text; no: the text contains them")            \
    X(ignore_eos, BOOL, "no", "", "continue after the end-of-sequence token")                      \
    X(cache_salt, STRING, "", "",                                                                  \
      "share cached prefixes only with requests that have the same salt")                          \
    X(request_id, STRING, "", "", "name of the request in logs; empty: the server chooses one")    \
    X(priority, F64(-100, 100), "0", "",                                                           \
      "among requests of one tenant, a higher priority goes first; a whole number; not given: "    \
      "the tenant's default")                                                                      \
    X(deadline_ms, DURATION_MS(1, 86400000), "10m", "ms", "timeout of the whole request")          \
    X(echo, BOOL, "no", "", "print the prompt before the text")                                    \
    X(verbose, BOOL, "no", "", "print workers, bytes moved, stage times and tokens/s at the end")  \
    X(expect_handover, BOOL, "no", "",                                                             \
      "fail, after printing the text, unless KV of the prompt came from a context worker")         \
    X(handover_wait_ms, DURATION_MS(0, 86400000), "0", "ms",                                       \
      "with expect_handover, or when no server answers: time to retry, once a second, each time "  \
      "with another cache salt")                                                                   \
    X(token_file, STRING, "", "",                                                                  \
      "file with the bearer token; empty: KVFERRY_TOKEN, if it is set")                            \
    SERVER_TLS_ROWS(X)

CONFIG_DECLARE(generate_config, GENERATE_CONFIG);
