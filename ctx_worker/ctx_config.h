/* ctx_config - the configuration of a context worker. */
#pragma once

#include "worker/worker_config.h"

#define CTX_CONFIG(X)                                                                              \
    WORKER_CONFIG_ROWS(X)                                                                          \
    X(prompts_max, U32(1, 4096), "64", "prompts", "prompts computing or waiting to be read")

CONFIG_DECLARE(ctx_config, CTX_CONFIG);
