/* draft_node - which generation workers guess tokens, and the draft model of those that have one. */
#pragma once

#include "tests/sim/oracle.h"
#include "tests/sim/plan.h"
#include "worker_common/drafter.h"

/* In every second run of four seeds whose model can. */
bool draft_node_guesses(const struct plan *plan);
/* In two of three of these: of the model itself, whose guesses are right, or of another one. Else *drafter_out is NULL. */
MUST_CHECK enum status draft_node_create(const struct plan *plan, const struct oracle *oracle,
                                         struct device *device, uint32_t sequences_max,
                                         struct error *error, struct drafter **drafter_out);
