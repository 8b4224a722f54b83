/*
 * http_config - the rows of an HTTP port of a role: what the gRPC ports do not have as well.
 *
 * A role with such a port puts HTTP_CONFIG_ROWS(X) into its table, which has PROCESS_CONFIG_ROWS.
 */
#pragma once

#include "base/config/config.h"

#define HTTP_CONFIG_ROWS(X)                                                                        \
    X(http_target_bytes_max, SIZE(1024, 65536), "8K", "bytes",                                     \
      "longest path with query of an HTTP request")                                                \
    X(http_fields_max, U32(8, 1000), "100", "fields", "most header fields of an HTTP request")     \
    X(http_reply_bytes_max, SIZE(1048576, 268435456), "64M", "bytes",                              \
      "largest HTTP answer that is not a stream")                                                  \
    X(http_head_ms, DURATION_MS(100, 3600000), "10s", "ms",                                        \
      "longest time from connecting, or from the first byte of an HTTP request, to the end of "    \
      "its "                                                                                       \
      "head")                                                                                      \
    X(http_idle_ms, DURATION_MS(100, 3600000), "75s", "ms",                                        \
      "longest time between two requests on one HTTP connection; then it is closed")               \
    X(http_comment_ms, DURATION_MS(100, 3600000), "15s", "ms",                                     \
      "time in which nothing of an HTTP stream is sent, then a comment, so that proxies keep it "  \
      "open")
