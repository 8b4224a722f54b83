/*
 * revision - of what two workers say and send to each other: Describe's fields and their meaning, events
 * of a prefill, messages of the data port.
 *
 * Neighbours pair, so that a cluster can be changed one process at a time; README.md has the table of
 * what each revision changed. A build may be given another number (KV_REVISION), as tests do.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

uint32_t kv_revision(void); /* of this program; from 1 */

/* theirs 0: they do not say, and pair with nobody. */
bool kv_revision_pairs(uint32_t ours, uint32_t theirs);
