/* router_config - the configuration of a router. */
#pragma once

#include "process/ports/http_config.h"
#include "process/process_config.h"
#include "text/constraint/constraint_config.h"
#include "text/text_config.h"

enum page_names { PAGE_NAMES_OFF, PAGE_NAMES_LOOPBACK, PAGE_NAMES_ON };

/* The page at / of the metrics port. */
#define PAGE_CONFIG_ROWS(X)                                                                        \
    X(page, BOOL, "yes", "", "show a page for people at / of the metrics port (docs/watch.md)")    \
    X(page_names, WORD(enum page_names, "off|loopback|on"), "loopback", "",                        \
      "whether the page shows the ids of requests and the names of tenants; loopback: only if "    \
      "metrics_address is on a loopback interface")                                                \
    X(page_readers_max, U32(0, 1024), "16", "connections",                                         \
      "most connections that follow the page's events; a further one is refused")                  \
    X(page_interval_ms, DURATION_MS(100, 60000), "500ms", "ms", "time between two events")         \
    X(page_behind_ms, DURATION_MS(1000, 600000), "10s", "ms",                                      \
      "time for which a reader of the events is behind, after which it is disconnected")           \
    X(page_requests_max, U32(1, 1000), "64", "requests",                                           \
      "most running requests that the page lists, the newest first; it counts all")                \
    X(page_ended_max, U32(1, 1000), "32", "requests", "ended requests that the page remembers")

#define ROUTER_CONFIG(X)                                                                           \
    PROCESS_CONFIG_ROWS(X)                                                                         \
    X(grpc_address, STRING, "127.0.0.1:50051", "", "address of the public API")                    \
    X(http_address, STRING, "", "",                                                                \
      "address of the OpenAI-compatible HTTP API; empty: no such port")                            \
    HTTP_CONFIG_ROWS(X)                                                                            \
    X(http_hosts, STRING, "", "",                                                                  \
      "names of hosts, separated by commas: clients may use the HTTP port by these names, and "    \
      "web pages from these hosts may use it in a browser; *: any. On a loopback address "         \
      "localhost and addresses need not be named; without a tokens_file all other names and "      \
      "pages are refused there")                                                                   \
    X(engine_address, STRING, "", "",                                                              \
      "address of the gRPC APIs by which gateways drive an engine (docs/gateways.md), in clear "   \
      "text and without tokens; empty: no such port")                                              \
    X(kv_event_blocks_max, U32(0, 16777216), "262144", "blocks",                                   \
      "most KV blocks of all workers' prefix caches that gateways at engine_address hear of "      \
      "(docs/kv-events.md); with a prefix on several workers, it counts for each; 0: gateways "    \
      "get none")                                                                                  \
    X(generation_workers, STRING, "", "",                                                          \
      "control addresses (host:port) of generation workers, separated by commas; each address of " \
      "a host name is one worker")                                                                 \
    X(context_workers, STRING, "", "", "the same for context workers")                             \
    X(resolve_ms, DURATION_MS(100, 3600000), "2s", "ms",                                           \
      "time between two lookups of these host names")                                              \
    X(served_model_name, STRING, "", "", "model name in requests; empty: the folder's name")       \
    X(kv_block_tokens, U32(8, 128), "16", "tokens",                                                \
      "tokens in a KV block of the workers; the router compares prompt prefixes in blocks of "     \
      "this size")                                                                                 \
    X(local_prefill, BOOL, "yes", "", "accept requests while no context worker is ready")          \
    X(requests_max, U32(1, 65536), "1024", "requests", "most requests at one time")                \
    X(chat_tokens_max, U32(1, 16777216), "4096", "tokens",                                         \
      "most tokens of an answer of chat whose request sets no max_tokens; the end of the context " \
      "ends it, too")                                                                              \
    X(attempts_max, U32(1, 16), "3", "pairs", "most pairs of workers tried for one request")       \
    X(wait_max, U32(0, 65536), "256", "requests",                                                  \
      "most requests that wait while no worker is ready or all are full; 0: such requests are "    \
      "refused")                                                                                   \
    X(wait_limit_ms, DURATION_MS(0, 3600000), "10s", "ms",                                         \
      "longest time a request waits for a worker that is ready and not full")                      \
    X(prefixes_max, U32(16, 16777216), "65536", "blocks",                                          \
      "most prompt blocks that the router remembers, to choose a worker that has them cached")     \
    X(prompt_tokens_max, U32(1, 16777216), "131072", "tokens", "longest prompt accepted")          \
    X(poll_ms, DURATION_MS(10, 60000), "200ms", "ms",                                              \
      "time between two checks of a worker's state")                                               \
    X(poll_limit_ms, DURATION_MS(10, 60000), "2s", "ms",                                           \
      "time without an answer after which a worker counts as not ready")                           \
    X(text_inline_bytes, SIZE(0, 1048576), "16K", "bytes",                                         \
      "texts longer than this are tokenized on a separate thread")                                 \
    X(text_queue_max, U32(1, 65536), "256", "texts", "most texts that wait for this thread")       \
    X(text_queue_bytes_max, SIZE(65536, 1073741824), "8M", "bytes",                                \
      "most bytes of these texts, and of requests that arrive before the first worker; a single "  \
      "text may be larger")                                                                        \
    X(reply_bytes_max, SIZE(1024, 67108864), "4M", "bytes",                                        \
      "largest reply of Complete, and largest text of an HTTP reply that is not a stream; there "  \
      "each log-probability counts as 64 bytes, too")                                              \
    PAGE_CONFIG_ROWS(X)                                                                            \
    CONSTRAINT_CONFIG_ROWS(X)                                                                      \
    TEXT_CONFIG_ROWS(X)                                                                            \
    X(priority_max, U32(0, 100), "0", "",                                                          \
      "highest priority that clients may ask for without a tokens_file, where it counts among "    \
      "the requests of all clients; with a tokens_file, its rows decide")                          \
    X(tokens_file, STRING, "", "",                                                                 \
      "file that says who may call, with which quotas (docs/tenants.md); empty: everyone may "     \
      "call")                                                                                      \
    X(salt_key_file, STRING, "", "",                                                               \
      "file with a secret of 32 bytes or more that separates the cached prefixes of tenants; all " \
      "routers of the same workers need the same secret; empty: a random one at each start")

#define ROUTER_ALIASES(X) X("block-size", kv_block_tokens)

CONFIG_DECLARE(router_config, ROUTER_CONFIG);
