/*
 * client_beams - clients that ask for a beam search: which, and how their replies are judged.
 *
 * Thread: one.
 */
#pragma once

#include "tests/sim/cluster.h"

/* Sets the beams of its sampling, and computes the right replies, if it is to ask for a search. */
void client_ask_beams(struct client *client);
/* Of one that asked: all right replies have one token, so the search ends with the first ones. */
bool client_is_short(const struct client *client);
/* finish: in the message that told the end. */
void client_judge_replies(struct client *client, const struct gen_finish *finish);
