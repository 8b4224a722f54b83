/*
 * kv_files - a folder with a file for each KV block: the store of the disk tier.
 *
 *     FOLDER/kv-blocks/           0700
 *         lock                    held by the process that uses the folder (flock)
 *         key                     0600; the secret that the hashes of prefixes are keyed with, and a generation
 *         tmp                     a block that is being written
 *         <hash>-<parent>-<origin>-<layout>-<group>.kv
 *
 *     a block's file   0  "kvfblk01"          48  origin                   128  the bytes of the block
 *                      8  group, 0            56  bytes of the block
 *                     16  hash                64  layout
 *                     32  parent              80  zeros
 *                                            112  digest of all that is before and behind it
 *
 * Numbers are little-endian. The digest is SipHash-2-4 of 128 bits with a key that is made of the secret and the generation.
 * The layout is a hash, with that key, of the geometry with the model's digest and the numerics id: a file of another layout is
 * foreign.
 *
 * What was cleared does not come back: first a key file of the next generation is written, then the files are removed. A drop
 * removes its files, and clears if one of them cannot be removed. While no key file can be written, nothing is kept.
 *
 * A file appears whole (rename), is not synced, and is never trusted: whatever is wrong with it, it is missing, and is
 * deleted. The time of its last change says when it was used last, so the order of use outlives the process. Files of
 * other layouts, half-written ones, and what is over the size are deleted at start. A folder whose key is new has no files.
 *
 * Hashes are of tokens and the cache salt of a request, under a key of this folder alone: names say nothing of prompts. The
 * bytes of a block do; they are not encrypted.
 *
 * A disk that is full before bytes_max loses the oldest block for the new one, and counts a fault for each.
 *
 * Bounds: bytes_max, in which a file counts with whole pages of 4,096 bytes, and the index in memory (72 bytes a file).
 *
 * Thread: open and close main's; then as block_store.h says.
 */
#pragma once

#include "base/status.h"
#include "kvcache/geometry.h"
#include "kvtier/block_store.h"

struct kv_files;

struct kv_files_options {
    const char *
        folder; /* an existing one, or one that can be made in an existing one; borrowed until open returns */
    uint64_t bytes_max;
    uint32_t
        n_sharers; /* for the sentence: it is the part of one of so many workers; 0, 1: the whole */
    const struct geometry *geometry; /* likewise */
};

/* What opening found. */
struct kv_files_found {
    uint64_t n_kept, n_foreign, n_over, n_broken; /* files: kept, and deleted for a reason */
};

/* Refuses what open would refuse, as far as it shows without making or writing anything: another process may use the folder. */
MUST_CHECK enum status kv_files_check(const struct kv_files_options *options, struct error *error);
/* INVALID_ARGUMENT, NOT_FOUND, IO_FAILED, NO_MEMORY: with a sentence that has the folder. */
MUST_CHECK enum status kv_files_open(const struct kv_files_options *options, struct error *error,
                                     struct kv_files **files_out);
/* The files stay. NULL is fine. */
void kv_files_close(struct kv_files *files);

/* For the prefix key of who uses the folder (prefix_key_for). */
struct prefix_key kv_files_secret(const struct kv_files *files);
struct kv_files_found kv_files_found(const struct kv_files *files);
const char *kv_files_folder(const struct kv_files *files); /* with kv-blocks */

extern const struct block_store_ops KV_FILES_OPS; /* of a struct kv_files */
