/*
 * beam_replies - what the last message of a beam search must be: the n best replies, one for each choice.
 *
 * Thread: any; no state.
 */
#pragma once

#include "proto/kvferry/internal/v1/generation_worker.pb-c.h"
#include "router/requests/generation_state.h"

/* Whether the message has what only the replies may come with: a search has no other tokens. */
bool beam_replies_are_there(const Kvferry__Internal__V1__DecodeResponse *message);
/* A stop string ended it, the one of that number. */
bool beam_reply_has_stop(const Kvferry__Internal__V1__BeamReply *reply);
/* False: the worker is at fault. They are one for each choice, each has 1 to max_tokens tokens, a reason and a score, and where a stop string
 * ended it one that was asked for; they come with the call's own reason, without other tokens. */
bool beam_replies_are_valid(const struct generation *generation,
                            const Kvferry__Internal__V1__DecodeResponse *message);
