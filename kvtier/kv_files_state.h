/*
 * kv_files_state - what a folder of KV blocks holds, for kv_files.c (blocks) and kv_files_open.c (the folder).
 *
 * Thread: as kv_files.h; the mutex guards index and counts.
 */
#pragma once

#include "base/hash.h"
#include "kvtier/kv_files.h"
#include "kvtier/stored_index.h"

#include <limits.h>
#include <pthread.h>

#define KV_FILE_HEAD_BYTES 128u
#define KV_FILE_PAGE_BYTES 4096u
#define KV_FILE_NAME_MAX   128u
#define KV_FILE_TMP        "tmp"

struct kv_files {
    char folder[PATH_MAX];
    int descriptor, lock; /* of the folder, and of the file in it; -1: none */
    size_t block_bytes;
    uint64_t file_bytes; /* as it counts */
    struct prefix_key secret;
    uint64_t generation;
    bool must_renew; /* the key file of the next one could not be written, and the index is empty */
    struct hash_key digest_key;
    struct hash128 shape; /* of the geometry */
    struct hash128 layout;
    struct kv_files_found found;
    uint64_t time_ns; /* of the last use: later ones are later */
    pthread_mutex_t mutex;
    struct stored_index *index;
    struct store_counts counts;
};

/* The key file of the next generation. 0, or an error number. */
int kv_files_write_next(struct kv_files *files);
/* Files have that generation from now on. */
void kv_files_take_next(struct kv_files *files);

void kv_file_name(const struct kv_files *files, const struct stored_block *block,
                  char name_out[KV_FILE_NAME_MAX]);
/* False: no name of a block. layout_out: the part of it that names have. */
bool kv_file_parse(const char *name, struct stored_block *block_out, uint64_t *layout_out);
