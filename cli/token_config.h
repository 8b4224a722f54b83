/* token_config - the flags of `kvferry token`: the members of its entry. */
#pragma once

#include "base/config/config.h"

#define TOKEN_CONFIG(X)                                                                            \
    X(methods, LIST, "", "", "methods that the token may call; not given: the public methods")     \
    X(requests_per_second, STRING, "", "requests",                                                 \
      "most requests in a second; not given: no limit")                                            \
    X(tokens_per_minute, STRING, "", "tokens",                                                     \
      "most tokens in a minute, of prompts and replies; not given: no limit")                      \
    X(requests_at_once, STRING, "", "requests", "most requests at one time; not given: no limit")  \
    X(shares_prefix_cache, STRING, "", "",                                                         \
      "name of a shared prefix cache; tenants that give the same name share cached prefixes")      \
    X(weight, STRING, "", "",                                                                      \
      "share of the workers' compute, relative to the weights of other tenants; not given: 1")     \
    X(priority, STRING, "", "", "priority of requests that set none; not given: 0")                \
    X(priority_max, STRING, "", "",                                                                \
      "highest priority that requests may ask for; not given: the same as priority")

CONFIG_DECLARE(token_config, TOKEN_CONFIG);
