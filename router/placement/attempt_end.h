/*
 * attempt_end - what the end of a Decode call means for the worker, for another attempt and for the
 * client.
 *
 * Thread: any (pure).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>

/* The worker refused before it did anything: other workers with room may be asked, and this one after it reports room. */
bool attempt_end_lacks_room(enum status status);
/* Another pair may succeed. Attempts have their own ids, so a duplicate is not an error of the client. */
bool attempt_end_is_retryable(enum status status);
/* Do not use the generation worker until its next report. A restarted worker refuses calls for its former incarnation. */
bool attempt_end_takes_out(enum status status);
/* The status for the client, which does not see attempts, or which worker of a pair is full. */
enum status attempt_end_for_client(enum status status);
