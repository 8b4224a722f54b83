/*
 * choice_end - what a client is told of a choice at its end: the worker's figures, or the router's own where none came.
 *
 * Thread: dispatch's mutex.
 */
#pragma once

#include "router/requests/generation_state.h"

/* Borrows from choice; without the rest of the text, and is_last. */
void choice_end_make(const struct choice *choice, struct reply_end *end_out);
