/*
 * openai_whole - the reply of a call that is no stream: one body of all its choices.
 *
 * Lock: the call's mutex is held.
 */
#pragma once

#include "base/status.h"

struct openai_call;

/* All choices have ended. NO_MEMORY; as http_exchange_reply. */
MUST_CHECK enum status openai_whole_reply(struct openai_call *call);
