/*
 * standing_codec - converts the message Standing from and to the struct of base/standing.h.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/standing.h"
#include "proto/kvferry/internal/v1/standing.pb-c.h"

void standing_encode(const struct standing *standing, Kvferry__Internal__V1__Standing *message_out);
/* message NULL: the sender is an older version. Checks nothing; standing_check does. */
void standing_decode(const Kvferry__Internal__V1__Standing *message, struct standing *standing_out);
