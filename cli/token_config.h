/* token_config - the flags of `kvferry token`: the row that goes with the token. */
#pragma once

#include "base/config/config.h"

#define TOKEN_CONFIG(X)                                                                            \
    X(methods, LIST, "", "", "what the token may call; left out: the public methods")              \
    X(requests_per_second, STRING, "", "requests", "left out, like what follows: no limit")        \
    X(tokens_per_minute, STRING, "", "tokens", "of prompts and generated")                         \
    X(requests_at_once, STRING, "", "requests", "running at one time")                             \
    X(shares_prefix_cache, STRING, "", "", "name that tenants who share cached prefixes all give") \
    X(weight, STRING, "", "",                                                                      \
      "share of what workers compute, beside others' weights; left out: 1")                        \
    X(priority, STRING, "", "", "of requests that say none; left out: 0")                          \
    X(priority_max, STRING, "", "", "highest that requests may ask for; left out: priority")

CONFIG_DECLARE(token_config, TOKEN_CONFIG);
