/*
 * attempt_end - what the end of a Decode call says: of the worker, of another attempt, to the client.
 *
 * Thread: any (pure).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>

/* The worker said so before it did anything: who else has room may be asked, and this one when it has told of some. */
bool attempt_end_lacks_room(enum status status);
/* May succeed with another pair. Attempts have ids of their own: a duplicate is no fault of the client. */
bool attempt_end_is_retryable(enum status status);
/* The generation worker is not to be used until its next report; one that was started anew refuses calls for its former
 * life. */
bool attempt_end_takes_out(enum status status);
/* What a client is told: that there are attempts, and which side of a pair is full, is no business of its. */
enum status attempt_end_for_client(enum status status);
