/*
 * numerics - the id of everything that decides the bits of KV but the model and the layout, and whether KV
 * of another id may be used.
 *
 *     device - activations - products - attention - its math - weights - version
 *     cpu    - f32         - fma      - fma       - compute  - asis    - 1
 *     cuda_sm90 - bf16     - cuda     - cuda      - compute  - asis    - 1
 *
 * Equal ids: the same tokens have the same KV, bit for bit. Of other ids nothing is promised but each
 * one's own tolerance. model/numerics_id.h makes it; here it is a text that is compared. "" is what
 * a worker tells that is older than the id.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>

#define NUMERICS_ID_MAX    64  /* bytes, NUL included */
#define NUMERICS_ALLOW_MAX 256 /* of the text that allows others */

/* Small letters, digits, '-', '_' and '.', at least one and below NUMERICS_ID_MAX. */
bool numerics_is_id(const char *text);

/* allow: "equal", "any", or ids with commas between them. INVALID_ARGUMENT with the one that is none. */
MUST_CHECK enum status numerics_allow_check(const char *allow, struct error *error);

/* False: who has this id computes in orders that depend on a batch, and even its own tokens may differ in bits. */
bool numerics_is_exact(const char *id);

enum numerics_fit {
    NUMERICS_EQUAL,
    NUMERICS_OTHER, /* allowed: its KV may be used, and must never pass for the own */
    NUMERICS_REFUSED
};

/* Whether a worker of id ours, which allows allow, takes KV of id theirs.
 * theirs "": it could be told from ours by nobody when both were new, so that a cluster can be changed one
 * process at a time it is taken, as OTHER, by those ids that a worker of its time could have had.
 * ours "": the same the other way round; such a worker refuses nobody. */
enum numerics_fit numerics_fit(const char *ours, const char *theirs, const char *allow);
