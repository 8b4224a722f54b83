/* test_key - a cluster key of no file: 32 times that byte. The caller destroys it; asserts (Criterion). */
#pragma once

#include "rpc/auth/cluster_key.h"

struct cluster_key *test_key(uint8_t byte);
