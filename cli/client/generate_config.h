/* generate_config - the flags of `kvferry generate`; flags that are not given leave their fields of
 * the request unset. */
#pragma once

#include "cli/client/constraint_fields.h"
#include "cli/client/sampling_fields.h"
#include "cli/client/server_tls.h"

/* As the words of the row. */
enum beams_stop { BEAMS_STOP_FALSE, BEAMS_STOP_TRUE, BEAMS_STOP_NEVER };

#define GENERATE_CONFIG(X)                                                                         \
    X(server, STRING, "127.0.0.1:50051", "", "address of the router")                              \
    X(model, STRING, "", "", "model folder: start a server for this one request")                  \
    X(adapter, STRING, "", "name",                                                                 \
      "LoRA adapter that the server has; with model: NAME=FOLDER, and the server gets it")         \
    X(prompt_file, STRING, "", "", "file with the prompt; - or no prompt at all: standard input")  \
    SAMPLING_ROWS(X)                                                                               \
    CONSTRAINT_FIELD_ROWS(X)                                                                       \
    X(add_special_tokens, BOOL, "yes", "",                                                         \
      "put the tokenizer's special tokens before the text; no: the text contains them")            \
    X(cache_salt, STRING, "", "",                                                                  \
      "share cached prefixes only with requests that have the same salt")                          \
    X(request_id, STRING, "", "", "name of the request in logs; empty: the server chooses one")    \
    X(priority, F64(-100, 100), "0", "",                                                           \
      "among requests of one tenant, a higher priority goes first; a whole number; not given: "    \
      "the tenant's default")                                                                      \
    X(deadline_ms, DURATION_MS(1, 86400000), "10m", "ms", "timeout of the whole request")          \
    X(choices, U32(1, 16), "1", "",                                                                \
      "replies to the one prompt, each printed under a header; choice i has the seed + i")         \
    X(beams, U32(0, 16), "0", "",                                                                  \
      "beam search with so many beams, as Transformers': replies come at the end, best first, "    \
      "and their scores on standard error; choices is how many of them; 0, 1: no search")          \
    X(length_penalty, F64(-10, 10), "1", "",                                                       \
      "a beam's score is the log-probability of its tokens / their number ^ this")                 \
    X(early_stopping, WORD(enum beams_stop, "false|true|never"), "false", "",                      \
      "once so many beams have ended: true: stop; false: unless a running beam would be better "   \
      "now; never: unless it can become better")                                                   \
    X(logprobs, U32(0, 20), "0", "tokens",                                                         \
      "print the log-probability of each token, and those of this many likeliest tokens; 0: none") \
    X(prompt_logprobs, U32(0, 20), "0", "tokens",                                                  \
      "print the log-probability of each token of the prompt, and those of this many likeliest "   \
      "tokens; not given: none")                                                                   \
    X(json, BOOL, "no", "", "print one JSON object a line for each choice, when all have ended")   \
    X(answer_bytes_max, SIZE(1024, 17179869184), "64M", "bytes",                                   \
      "most memory for a reply that is kept: for choices, logprobs, prompt_logprobs and json")     \
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

#define GENERATE_ALIASES(X) X("n", choices)

CONFIG_DECLARE(generate_config, GENERATE_CONFIG);
