/*
 * generation_end - what a reply is told at its end: the worker's figures, or the router's own where none came.
 *
 * Thread: dispatch's mutex.
 */
#pragma once

#include "router/generation_state.h"

/* end may be NULL. Borrows from both; without the rest of the text. */
void generation_end_make(const struct generation *generation, const struct decode_end *end,
                         struct reply_end *end_out);
