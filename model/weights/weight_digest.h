/*
 * weight_digest - reads the tensors of a model into memory, so that no step waits for the disk, digests every
 * byte, and refuses a NaN or an infinity: one NaN in a weight makes all logits NaN, or, where it is rounded or
 * masked, gives wrong but plausible text.
 *
 *     tensor   [ chunk | chunk | ... | rest ]     one thread reads and hashes a chunk (XXH3, 128 bits)
 *     digest   of the hashes of the chunks, in order
 *
 * The digest depends only on the bytes of the tensor, not on its file, its place or the number of threads. Two
 * different models have the same digest with a chance of 1 in 2^128. It does not protect against files that were
 * made to have a given digest.
 *
 * Thread: the caller's, and those of its pool while it runs.
 */
#pragma once

#include "base/hash.h"
#include "model/files/weight_files.h"

#include <stdbool.h>

struct thread_pool;

struct weight_digest_options {
    struct thread_pool *threads; /* NULL: only the caller's thread */
    /* On the caller's thread; may be NULL. */
    void (*on_progress)(void *arg, uint64_t bytes_done, uint64_t bytes_all);
    void *arg;
};

/* The hash of one chunk. */
struct hash128 weight_digest_bytes(const void *data, size_t bytes);

/* Digests the used entries of files: is_used [n_entries], digests_out [n_entries]. They are F32, BF16 or F16. IO_FAILED:
 * reading failed; error names the file. CORRUPT: a NaN or an infinity; error names tensor, element and value. NO_MEMORY. */
MUST_CHECK enum status weight_digest_read(const struct weight_files *files, const bool *is_used,
                                          const struct weight_digest_options *options,
                                          struct hash128 *digests_out, struct error *error);
