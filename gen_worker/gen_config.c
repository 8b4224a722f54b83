#include "gen_worker/gen_config.h"

CONFIG_DEFINE(gen_config, GEN_CONFIG, WORKER_ALIASES)
