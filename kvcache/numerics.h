/*
 * numerics - the id of everything that decides the bits of KV, except the model and the layout, and
 * whether KV with another id may be used.
 *
 *     device - activations - products - attention - its math - weights - version
 *     cpu    - f32         - fma      - fma       - compute  - asis    - 1
 *     cuda_sm90 - bf16     - cuda     - cuda      - compute  - asis    - 1
 *
 * With equal ids the same tokens have the same KV, bit for bit. With different ids each worker only
 * keeps its tolerance. model/forward/numerics_id.h makes the id; here it is a text to compare. "" comes from
 * a worker that is older than this id.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>

#define NUMERICS_ID_MAX    96  /* bytes, NUL included */
#define NUMERICS_ALLOW_MAX 256 /* of the list of accepted ids */

/* Lower-case letters, digits, '-', '_' and '.'; at least one character and fewer than
 * NUMERICS_ID_MAX. */
bool numerics_is_id(const char *text);

/* allow: "equal", "any", or ids separated by commas. INVALID_ARGUMENT: the sentence has the invalid id. */
MUST_CHECK enum status numerics_allow_check(const char *allow, struct error *error);

/* False: a worker with this id computes in an order that depends on the batch, so its own KV may differ in bits. */
bool numerics_is_exact(const char *id);

enum numerics_fit {
    NUMERICS_EQUAL,
    NUMERICS_OTHER, /* accepted: its KV may be used, but is cached under its own id */
    NUMERICS_REFUSED
};

/* Whether a worker with id ours, which also accepts allow, uses KV with id theirs. theirs "": an older
 * worker. So that a cluster can be upgraded one process at a time, its KV is accepted, as OTHER, by the
 * ids that a worker of that version could have. ours "": the same in the other direction; such a worker
 * refuses no KV. */
enum numerics_fit numerics_fit(const char *ours, const char *theirs, const char *allow);
