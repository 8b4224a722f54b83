/*
 * standing - how a request stands among others that want the same worker: what the router says of it.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define STANDING_WEIGHT_MAX   1000u
#define STANDING_PRIORITY_MAX 100 /* and down to its negative */

struct standing {
    uint64_t tenant;  /* a hash of its name; 0: there are no tenants */
    uint32_t weight;  /* its tenant's, up to STANDING_WEIGHT_MAX; 0: 1 */
    int32_t priority; /* among the requests of its tenant: larger is earlier */
};

/* INVALID_ARGUMENT with field, value and limit. */
MUST_CHECK enum status standing_check(const struct standing *standing, struct error *error);
