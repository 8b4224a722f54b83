/*
 * stored_index - which blocks a store has, and which of them was used longest ago.
 *
 *     find: key -> slot        list: the longest unused first
 *
 * A slot is a number below entries_max; a store has its bytes, or nothing, by that number.
 *
 * Bounds: all memory is reserved at creation, and touched as it is used. Thread: one at a time, by the store's lock.
 */
#pragma once

#include "base/status.h"
#include "kvtier/block_store.h"

#define STORED_NONE        UINT32_MAX
#define STORED_ENTRIES_MAX (1u << 28)

struct stored_index;

/* entries_max: 1 .. STORED_ENTRIES_MAX. NO_MEMORY. */
MUST_CHECK enum status stored_index_create(uint32_t entries_max, struct stored_index **index_out);
void stored_index_destroy(struct stored_index *index); /* NULL is fine */

uint32_t stored_index_count(const struct stored_index *index);
bool stored_index_is_full(const struct stored_index *index);
/* STORED_NONE: there is none. */
uint32_t stored_index_find(const struct stored_index *index, const struct stored_key *key);
const struct stored_block *stored_index_at(const struct stored_index *index, uint32_t slot);
/* A new key, where there is room. It counts as used now. */
uint32_t stored_index_add(struct stored_index *index, const struct stored_block *block);
void stored_index_use(struct stored_index *index, uint32_t slot); /* now */
void stored_index_remove(struct stored_index *index, uint32_t slot);

/* In the order of their use. STORED_NONE: the end. */
uint32_t stored_index_oldest(const struct stored_index *index);
uint32_t stored_index_next(const struct stored_index *index, uint32_t slot);
