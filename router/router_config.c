#include "router/router_config.h"

CONFIG_DEFINE(router_config, ROUTER_CONFIG, ROUTER_ALIASES)
