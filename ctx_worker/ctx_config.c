#include "ctx_worker/ctx_config.h"

CONFIG_DEFINE(ctx_config, CTX_CONFIG, WORKER_ALIASES)
