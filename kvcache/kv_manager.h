/*
 * kv_manager - which KV blocks each sequence holds: the one object that engines ask.
 *
 *     match -> prepare -> (a step or a transfer) -> keep -> prepare -> ... -> free
 *
 * A manager is of a kind, one of a list in kv_manager.c (docs/new-kv-manager.md):
 *
 *     paged        blocks are taken when tokens need them, and shared through a prefix cache
 *     contiguous   a sequence takes the blocks of the longest context at once, side by side: for comparisons
 *
 * README.md has a table of these functions beside the names of other systems.
 *
 * Pins, fences, inbound marks and origins of blocks are block_pool.h's; the functions here hand them on.
 *
 * Thread: the pool's.
 */
#pragma once

#include "kvcache/block_table.h"
#include "kvcache/kv_manager_rule.h"

struct kv_manager;

enum kv_manager_choice { KV_MANAGER_PAGED, KV_MANAGER_CONTIGUOUS, KV_MANAGERS };
#define KV_MANAGER_WORDS "paged|contiguous"

/* A snapshot of a recurrent state costs as much as the K and V of some hundred to some thousand tokens. */
#define KV_SNAPSHOT_TOKENS 1024u /* as worker_config.h has it */
#define KV_SNAPSHOT_SHARE                                                                          \
    8u /* where a prompt ends or branches off, an eighth of these are enough */

struct kv_manager_options {
    enum kv_manager_choice kind;
    const struct geometry *geometry; /* copied */
    struct block_pool *pool;         /* borrowed until destroy */
    struct cache_step step; /* the blocks that it needs beside those of sequences are kept aside */
    bool prefix_cache;      /* a contiguous one has none */
    uint32_t snapshot_tokens; /* between snapshots of a recurrent state; 0: KV_SNAPSHOT_TOKENS */
    bool has_replies;         /* sequences generate here: with sinks these drop what they share */
};

/* INVALID_ARGUMENT: the pool's blocks are not the geometry's, or it has no more than are kept aside, or (contiguous) than one
 * sequence takes; with a sentence. NO_MEMORY. */
MUST_CHECK enum status kv_manager_create(const struct kv_manager_options *options,
                                         struct error *error, struct kv_manager **manager_out);
/* All tables are finished. NULL is fine. */
void kv_manager_destroy(struct kv_manager *manager);
const char *kv_manager_name(const struct kv_manager *manager); /* "paged" */

/* ---- a sequence ---- */

/* Allocates room for the longest context. finish: gives all back; a zeroed one is fine. */
MUST_CHECK enum status kv_manager_init(struct kv_manager *manager, struct block_table *table);
void kv_manager_finish(struct block_table *table);
/* For an empty table, before each request: the window with sinks that the request asks for; 0: the geometry's. */
void kv_manager_set_window(const struct kv_manager *manager, struct block_table *table,
                           uint32_t window);

/* For an empty table: takes the cached prefix, at most n whole spans. Returns the number of its tokens. */
uint32_t kv_manager_match(struct kv_manager *manager, struct block_table *table,
                          const struct prefix_hash *hashes, uint32_t n);
/* The same where the state behind the prompt will arrive: finds prefixes without a snapshot, too, and takes none. */
uint32_t kv_manager_match_spans(struct kv_manager *manager, struct block_table *table,
                                const struct prefix_hash *hashes, uint32_t n);
/* Before tokens are computed or arrive: gives back what the next query does not see, and takes what is missing. The full groups
 * get blocks for all known tokens: those of a whole prompt at its first chunk. NO_BLOCKS: none was taken; what is
 * not seen any more is given back all the same. INVALID_ARGUMENT: over context_tokens. */
MUST_CHECK enum status kv_manager_prepare(struct kv_manager *manager, struct block_table *table,
                                          const struct block_need *need);
/* After a step, when the query at position is next: gives back what it does not see, so that the table has what
 * kv_manager_needs says, and the next step finds aside what it needs. Unless nothing follows, it also takes what is seen next, as
 * far as there are blocks; the next prepare takes the rest. */
void kv_manager_settle(struct kv_manager *manager, struct block_table *table, uint32_t position,
                       enum kv_next next);
/* False: sequences keep what they have. */
bool kv_manager_settles(const struct kv_manager *manager);
/* Whether sequences can be copied: block_table_copy. */
bool kv_manager_copies(const struct kv_manager *manager);
MUST_CHECK enum status kv_manager_copy(struct kv_manager *manager, struct block_table *table,
                                       const struct block_table *from, uint32_t n_tokens);
/* The first n spans of the table, whose tokens have those hashes, may be found by later sequences. */
void kv_manager_keep(struct kv_manager *manager, struct block_table *table,
                     const struct prefix_hash *hashes, uint32_t n);
/* Whether layers have recurrent state, of which snapshots are kept. */
bool kv_manager_keeps_states(const struct kv_manager *manager);
/* A snapshot of the state that knows the first n_tokens of the table is due: they are whole spans, snapshot_tokens behind the last
 * one, and a fourth of what that one knows, so that long prompts have few; or an eighth of snapshot_tokens where_prompts_part: others
 * may go on from there. Never without states. */
bool kv_manager_snapshot_is_due(const struct kv_manager *manager, const struct block_table *table,
                                uint32_t n_tokens, bool where_prompts_part);
/* Keeps one, if there is room. The tokens, which are all that the state knows, were kept. */
void kv_manager_keep_snapshot(struct kv_manager *manager, struct block_table *table,
                              const struct prefix_hash *hashes, uint32_t n_tokens);
/* Where a chunk of a prompt that has n_computed tokens should end, so that later prompts find a snapshot there: at n_branch, where the
 * cached spans of its prefix end, or at its last whole span. 0: anywhere. */
uint32_t kv_manager_cut(const struct kv_manager *manager, const struct block_table *table,
                        uint32_t n_computed, uint32_t n_branch, uint32_t n_prompt);
/* Gives all back; the table stays. */
void kv_manager_free(struct kv_manager *manager, struct block_table *table);

/* ---- the prefix cache ---- */

bool kv_manager_caches(const struct kv_manager *manager);
/* prefix_tree_peek_held, prefix_tree_changes, _forget and _drop; without a prefix cache 0. */
uint32_t kv_manager_peek(const struct kv_manager *manager, const struct prefix_hash *hashes,
                         uint32_t n, uint32_t *held_out);
uint64_t kv_manager_changes(const struct kv_manager *manager);
/* prefix_tree_reach; or 0 */
uint32_t kv_manager_reach(const struct kv_manager *manager, const struct prefix_hash *hashes,
                          uint32_t n);
uint32_t kv_manager_forget(struct kv_manager *manager, struct prefix_hash hash);
uint32_t kv_manager_drop(struct kv_manager *manager, uint64_t origin);
uint64_t kv_manager_evictions(const struct kv_manager *manager); /* prefix_tree_evictions; or 0 */
/* Evicts all that nobody holds. Returns how many blocks. */
uint32_t kv_manager_flush(struct kv_manager *manager);

/* For a tier behind the cache: prefix_tree_observe, _has, _touch. Only with a prefix cache. */
void kv_manager_observe(struct kv_manager *manager, prefix_observer observer, void *arg);
/* prefix_tree_observe_spans, _spans_max: likewise. */
void kv_manager_observe_spans(struct kv_manager *manager, prefix_span_observer observer, void *arg);
uint32_t kv_manager_spans_max(const struct kv_manager *manager);
/* Of a group, or of a block of a snapshot: groups, then these. */
bool kv_manager_has(const struct kv_manager *manager, struct prefix_hash hash, uint32_t row);
uint32_t kv_manager_touch(struct kv_manager *manager, const struct prefix_hash *hashes, uint32_t n);
/* Takes n blocks, of those that can be taken now, with one holder: the caller. NO_BLOCKS: none was taken. */
MUST_CHECK enum status kv_manager_take(struct kv_manager *manager, uint32_t n, block_id *ids_out);
void kv_manager_give(struct kv_manager *manager, const block_id *ids, uint32_t n);
/* prefix_tree_add of blocks that were taken, [n_groups]; then gives them back. */
bool kv_manager_add(struct kv_manager *manager, const struct prefix_hash *hashes, uint32_t at,
                    const block_id *ids);
/* prefix_tree_add_state of block number i of a snapshot, likewise. */
bool kv_manager_add_state(struct kv_manager *manager, struct prefix_hash hash, uint64_t origin,
                          uint32_t i, block_id id);

/* ---- how many ---- */

uint32_t
kv_manager_all(const struct kv_manager *manager); /* of the pool, without those kept aside */
/* That can be taken now; likewise, and without those that sequences with common blocks of a window will need for themselves. */
uint32_t kv_manager_left(const struct kv_manager *manager);
/* Blocks of a sequence of n tokens between two steps: with all that it may generate, those until its completion. */
uint32_t kv_manager_needs(const struct kv_manager *manager, uint32_t n_tokens);
/* The same as a rule, for a schedule. */
struct kv_manager_rule kv_manager_rule_of(const struct kv_manager *manager);

/* ---- blocks ---- */

uint32_t kv_manager_size(const struct kv_manager *manager); /* blocks of the pool */
uint32_t kv_manager_count(const struct kv_manager *manager, enum block_state state);
size_t kv_manager_block_bytes(const struct kv_manager *manager);
uint8_t *kv_manager_data(const struct kv_manager *manager, block_id id);
void kv_manager_pin(struct kv_manager *manager, const block_id *ids, uint32_t n);
void kv_manager_unpin(struct kv_manager *manager, const block_id *ids, uint32_t n);
void kv_manager_fence(struct kv_manager *manager, const block_id *ids, uint32_t n);
void kv_manager_unfence(struct kv_manager *manager, const block_id *ids, uint32_t n);
void kv_manager_inbound(struct kv_manager *manager, const block_id *ids, uint32_t n);
void kv_manager_arrived(struct kv_manager *manager, const block_id *ids, uint32_t n);
void kv_manager_set_origin(struct kv_manager *manager, const block_id *ids, uint32_t n,
                           uint64_t origin);
uint64_t kv_manager_origin(const struct kv_manager *manager, block_id id);
