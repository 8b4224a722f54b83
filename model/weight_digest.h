/*
 * weight_digest - reads the tensors of a model into memory, so that no step waits for the disk,
 * digests every byte of them while it does, and refuses what is no number: one NaN of a weight makes a model say
 * nothing but that, or, where it is rounded or masked, something plausible.
 *
 *     tensor   [ chunk | chunk | ... | rest ]     each read and hashed (XXH3, 128 bits) by one thread
 *     digest   of the chunks' hashes in order
 *
 * It is of the tensor's bytes alone: the same wherever they lie, in whichever file, whatever the number
 * of threads. Two models that are not the same differ in it but for one chance in 2^128; it is no
 * defence against whoever builds a file for it.
 *
 * Thread: the caller's, and those of its pool while it runs.
 */
#pragma once

#include "base/hash.h"
#include "model/weight_files.h"

#include <stdbool.h>

struct thread_pool;

struct weight_digest_options {
    struct thread_pool *threads; /* NULL: the caller alone */
    /* On the caller's thread; may be NULL. */
    void (*on_progress)(void *arg, uint64_t bytes_done, uint64_t bytes_all);
    void *arg;
};

/* Of the entries that are used, by their index in files: is_used [n_entries], digests_out [n_entries]. They are F32,
 * BF16 or F16. IO_FAILED: the disk could not, error names the file. CORRUPT: a NaN or an infinity, error names tensor,
 * element and value. NO_MEMORY. */
MUST_CHECK enum status weight_digest_read(const struct weight_files *files, const bool *is_used,
                                          const struct weight_digest_options *options,
                                          struct hash128 *digests_out, struct error *error);
