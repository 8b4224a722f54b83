/* ctx_config - the configuration of a context worker. */
#pragma once

#include "worker_common/worker_config.h"

#define CTX_CONFIG(X)                                                                              \
    WORKER_CONFIG_ROWS(X)                                                                          \
    X(prompts_max, U32(1, 4096), "64", "prompts", "prompts computing or waiting to be read")       \
    X(caller_share, U32(1, 100), "75", "percent",                                                  \
      "of prompts_max, queue_max and the pool for one host that has some already; on the "         \
      "loopback for one connection")                                                               \
    X(lease_limit_ms, DURATION_MS(10, 3600000), "15s", "ms",                                       \
      "longest wait for the commit of a computed prompt, besides three steps of its reader, and "  \
      "for each MiB of it ...")                                                                    \
    X(lease_limit_mib_ms, DURATION_MS(0, 3600000), "100ms", "ms", "... this much more")

CONFIG_DECLARE(ctx_config, CTX_CONFIG);
