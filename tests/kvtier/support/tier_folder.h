/* tier_folder - a temporary folder for files of KV blocks, a small geometry, and blocks whose bytes follow from their number. */
#pragma once

#include "kvtier/kv_files.h"

#include <stdbool.h>

struct tier_folder {
    char path[64];   /* exists */
    char blocks[96]; /* kv-blocks in it */
};

void tier_folder_make(struct tier_folder *folder);
void tier_folder_remove(const struct tier_folder *folder); /* with all that is in it */
/* Names of blocks' files in it. */
uint32_t tier_folder_count(const struct tier_folder *folder);
/* The path of the only block's file. */
void tier_folder_only(const struct tier_folder *folder, char path_out[256]);

extern const struct geometry TIER_GEOMETRY;
size_t tier_block_bytes(void);
/* How many files of it count as a page each. */
#define TIER_FILE_BYTES 4096u

struct stored_block tier_block(uint64_t number, uint64_t parent, uint64_t origin);
void tier_fill(uint64_t number, uint8_t *bytes);
bool tier_is_filled(uint64_t number, const uint8_t *bytes);

/* Opens it with room for n_files; the test fails if it cannot. */
struct kv_files *tier_open(const struct tier_folder *folder, uint64_t n_files);
void tier_write(struct kv_files *files, uint64_t number, uint64_t parent, uint64_t origin);
/* True: it is there, and right. The test fails if it is wrong. */
bool tier_read(struct kv_files *files, uint64_t number);
/* As the store says; the test does not fail. */
enum status tier_try_write(struct kv_files *files, uint64_t number);
bool tier_has(struct kv_files *files, uint64_t number);
struct store_counts tier_counts(struct kv_files *files);
