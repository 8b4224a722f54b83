/*
 * constraint_asked - what a request says of its reply's text, as constraint_check and constraint_compile read it.
 *
 * Thread: any; no state.
 */
#pragma once

#include "sampling_params/reply_constraint.h"
#include "text/constraint/constraint.h"

/* Of one with a kind, neither FREE nor UNSET. choices: room for its texts if it is REPLY_CHOICES. Borrows the texts and choices. */
struct constraint_text constraint_asked_text(const struct reply_constraint *asked,
                                             struct constraint_bytes *choices);
