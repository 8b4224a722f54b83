/*
 * standing - the tenant, weight and priority of a request, which the router tells the workers.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdint.h>

#define STANDING_WEIGHT_MAX   1000u
#define STANDING_PRIORITY_MAX 100 /* the lowest is -STANDING_PRIORITY_MAX */

struct standing {
    uint64_t tenant;  /* a hash of its name; 0: no tenants */
    uint32_t weight;  /* of its tenant, up to STANDING_WEIGHT_MAX; 0 means 1 */
    int32_t priority; /* among the requests of its tenant; a larger one is served earlier */
};

/* INVALID_ARGUMENT: the sentence has field, value and limit. */
MUST_CHECK enum status standing_check(const struct standing *standing, struct error *error);
