/* generate_config - the flags of `kvferry generate`; those left alone are left open in the request. */
#pragma once

#include "cli/client/server_tls.h"

#define GENERATE_CONFIG(X)                                                                         \
    X(server, STRING, "127.0.0.1:50051", "", "the router")                                         \
    X(model, STRING, "", "", "folder: starts a server of its own for this one request")            \
    X(prompt_file, STRING, "", "", "file with the prompt; -: standard input, as without it")       \
    X(max_tokens, U32(1, 16777216), "256", "tokens", "tokens to generate")                         \
    X(temperature, F64(0, 100), "1", "", "0: greedy; left alone: the model's")                     \
    X(top_k, U32(0, 4294967295), "0", "tokens", "0: all; left alone: the model's")                 \
    X(top_p, F64(0, 1), "1", "", "left alone: the model's")                                        \
    X(min_p, F64(0, 1), "0", "", "least likelihood, relative to the likeliest")                    \
    X(repetition_penalty, F64(0, 100), "1", "", "left alone: the model's")                         \
    X(presence_penalty, F64(-2, 2), "0", "", "for tokens that were generated")                     \
    X(frequency_penalty, F64(-2, 2), "0", "", "for each time a token was generated")               \
    X(seed, U64(0, CONFIG_NO_MAX), "0", "", "left alone: drawn by the server")                     \
    X(stop, LIST, "", "", "text that ends the generation")                                         \
    X(add_special_tokens, BOOL, "yes", "",                                                         \
      "put before the text what the model's tokenizer puts there; no: the text has it")            \
    X(ignore_eos, BOOL, "no", "", "goes on past the end of sequence")                              \
    X(cache_salt, STRING, "", "", "shares cached prefixes with the same salt alone")               \
    X(request_id, STRING, "", "", "name in logs; empty: drawn by the server")                      \
    X(priority, F64(-100, 100), "0", "",                                                           \
      "larger is earlier, among requests of the same tenant; a whole number; left alone: the "     \
      "tenant's")                                                                                  \
    X(deadline_ms, DURATION_MS(1, 86400000), "10m", "ms", "longest time for all of it")            \
    X(echo, BOOL, "no", "", "print the prompt before the text")                                    \
    X(verbose, BOOL, "no", "", "print workers, bytes moved, stage times and tokens/s at the end")  \
    X(expect_handover, BOOL, "no", "",                                                             \
      "fail, after the text, unless KV of the prompt came from a context worker")                  \
    X(handover_wait_ms, DURATION_MS(0, 86400000), "0", "ms",                                       \
      "how long it asks again, each second under another salt, before that is a failure, or that " \
      "nobody answers")                                                                            \
    X(token_file, STRING, "", "",                                                                  \
      "file with the bearer token; empty: KVFERRY_TOKEN, if it is set")                            \
    SERVER_TLS_ROWS(X)

CONFIG_DECLARE(generate_config, GENERATE_CONFIG);
