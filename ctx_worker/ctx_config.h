/* ctx_config - the configuration of a context worker. */
#pragma once

#include "worker_common/worker_config.h"

#define CTX_CONFIG(X)                                                                              \
    WORKER_CONFIG_ROWS(X)                                                                          \
    X(prompts_max, U32(1, 4096), "64", "prompts",                                                  \
      "most prompts that are computed or wait to be fetched")                                      \
    X(caller_share, U32(1, 100), "75", "percent",                                                  \
      "most of prompts_max, queue_max and the KV blocks that one host may use once it has some; "  \
      "on the loopback, one connection")                                                           \
    X(lease_limit_ms, DURATION_MS(10, 3600000), "15s", "ms",                                       \
      "longest wait for the commit of a computed prompt, in addition to three steps of the "       \
      "generation worker; lease_limit_mib_ms is added for each MiB")                               \
    X(lease_limit_mib_ms, DURATION_MS(0, 3600000), "100ms", "ms",                                  \
      "time added to lease_limit_ms for each MiB")

CONFIG_DECLARE(ctx_config, CTX_CONFIG);
