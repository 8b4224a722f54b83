/* router_config - the configuration of a router. */
#pragma once

#include "process/process_config.h"

#define ROUTER_CONFIG(X)                                                                           \
    PROCESS_CONFIG_ROWS(X)                                                                         \
    X(grpc_address, STRING, "127.0.0.1:50051", "", "port of the public API")                       \
    X(generation_workers, STRING, "", "",                                                          \
      "control addresses, host:port, separated by commas: every address of a name is a worker")    \
    X(context_workers, STRING, "", "", "the same of context workers")                              \
    X(resolve_ms, DURATION_MS(100, 3600000), "2s", "ms",                                           \
      "between two questions for the addresses of such a name")                                    \
    X(served_model_name, STRING, "", "", "name that requests use; empty: the folder's")            \
    X(kv_block_tokens, U32(8, 128), "16", "tokens", "granularity of known prefixes: the workers'") \
    X(local_prefill, BOOL, "yes", "", "place requests when no context worker is ready")            \
    X(requests_max, U32(1, 65536), "1024", "requests", "requests at one time")                     \
    X(attempts_max, U32(1, 16), "3", "pairs", "pairs of workers tried for a request")              \
    X(wait_max, U32(0, 65536), "256", "requests",                                                  \
      "requests that wait while no worker is ready, or none has room; 0: they are refused")        \
    X(wait_limit_ms, DURATION_MS(0, 3600000), "10s", "ms",                                         \
      "longest wait for a worker that is ready and has room")                                      \
    X(prefixes_max, U32(16, 16777216), "65536", "blocks", "remembered blocks of prompts")          \
    X(prompt_tokens_max, U32(1, 16777216), "131072", "tokens", "longest prompt taken")             \
    X(poll_ms, DURATION_MS(10, 60000), "200ms", "ms", "between two looks at a worker")             \
    X(poll_limit_ms, DURATION_MS(10, 60000), "2s", "ms", "silence that makes a worker not ready")  \
    X(text_inline_bytes, SIZE(0, 1048576), "16K", "bytes",                                         \
      "longer texts are tokenized on a thread of their own")                                       \
    X(text_queue_max, U32(1, 65536), "256", "texts", "texts that wait for that thread")            \
    X(text_queue_bytes_max, SIZE(65536, 1073741824), "8M", "bytes",                                \
      "their bytes together, and those of requests before the first worker; one alone may have "   \
      "more")                                                                                      \
    X(reply_bytes_max, SIZE(1024, 67108864), "4M", "bytes", "longest reply of Complete")           \
    X(priority_max, U32(0, 100), "0", "",                                                          \
      "highest priority that clients may ask for where there is no tokens_file, and then for "     \
      "anybody's requests; with one its rows say")                                                 \
    X(tokens_file, STRING, "", "",                                                                 \
      "who may call, with which quotas (docs/tenants.md); empty: everybody may")                   \
    X(salt_key_file, STRING, "", "",                                                               \
      "secret of 32 bytes or more that keeps tenants' cached prefixes apart, the same for all "    \
      "routers of the workers; empty: drawn at start")

#define ROUTER_ALIASES(X) X("block-size", kv_block_tokens)

CONFIG_DECLARE(router_config, ROUTER_CONFIG);
