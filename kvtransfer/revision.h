/*
 * revision - the version of the protocol between two workers: the fields of Describe, the events of a prefill,
 * the messages of the data port.
 *
 * Neighbouring revisions pair, so that a cluster can be upgraded one process at a time. README.md lists what each
 * revision changed. A build may set another number (KV_REVISION), as tests do.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

uint32_t kv_revision(void); /* of this program; from 1 */

/* theirs 0: they do not say, and pair with nobody. */
bool kv_revision_pairs(uint32_t ours, uint32_t theirs);
