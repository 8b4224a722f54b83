/* chat_config - the flags of `kvferry chat`. */
#pragma once

#include "cli/client/sampling_fields.h"
#include "cli/client/server_tls.h"

#define CHAT_CONFIG(X)                                                                             \
    X(server, STRING, "127.0.0.1:50051", "", "address of the router")                              \
    X(system, STRING, "", "", "text of the system message, before the conversation")               \
    X(system_file, STRING, "", "", "file with the text of the system message")                     \
    X(max_tokens, U32(1, 16777216), "16777216", "tokens",                                          \
      "most tokens of an answer; not given: the router's chat_tokens_max")                         \
    SAMPLING_ROWS_OF_CHAT(X)                                                                       \
    X(cache_salt, STRING, "", "",                                                                  \
      "share cached prefixes only with requests that have the same salt")                          \
    X(deadline_ms, DURATION_MS(1, 86400000), "10m", "ms", "timeout of the whole request")          \
    X(verbose, BOOL, "no", "", "print workers, bytes moved, stage times and tokens/s at the end")  \
    X(answer_bytes_max, SIZE(1024, 17179869184), "64M", "bytes", "most memory for one answer")     \
    X(messages_max, U32(2, 4096), "4096", "messages", "most messages of a conversation")           \
    X(history_lines, U32(0, 100000), "1000", "lines",                                              \
      "messages that the history file keeps for the next chat; 0: no file is read or written")     \
    X(token_file, STRING, "", "",                                                                  \
      "file with the bearer token; empty: KVFERRY_TOKEN, if it is set")                            \
    SERVER_TLS_ROWS(X)

CONFIG_DECLARE(chat_config, CHAT_CONFIG);
