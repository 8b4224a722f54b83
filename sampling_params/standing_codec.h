/*
 * standing_codec - Standing on the wire as the struct of base/standing.h.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/standing.h"
#include "proto/kvferry/internal/v1/standing.pb-c.h"

void standing_encode(const struct standing *standing, Kvferry__Internal__V1__Standing *message_out);
/* message NULL: a sender that is older than it. Checks nothing: standing_check does. */
void standing_decode(const Kvferry__Internal__V1__Standing *message, struct standing *standing_out);
