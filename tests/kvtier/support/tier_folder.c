#include "tests/kvtier/support/tier_folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct geometry TIER_GEOMETRY = {.n_layers = 2,
                                       .n_kv_heads = 1,
                                       .head_dim = 8,
                                       .block_tokens = 8,
                                       .dtype = KV_F32,
                                       .model_digest = {11, 12},
                                       .numerics = "cpu-f32-fma-fma-compute-asis-1"};

void tier_folder_make(struct tier_folder *folder)
{
    snprintf(folder->path, sizeof folder->path, "/tmp/kvtier-XXXXXX");
    cr_assert(mkdtemp(folder->path));
    snprintf(folder->blocks, sizeof folder->blocks, "%s/kv-blocks", folder->path);
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *where)
{
    (void)stat;
    (void)kind;
    (void)where;
    return remove(path);
}

void tier_folder_remove(const struct tier_folder *folder)
{
    nftw(folder->path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static uint32_t look(const struct tier_folder *folder, char path_out[256])
{
    uint32_t n = 0;
    DIR *open = opendir(folder->blocks);
    const struct dirent *entry;
    while (open && (entry = readdir(open))) {
        const char *end = strrchr(entry->d_name, '.');
        if (!end || strcmp(end, ".kv") != 0)
            continue;
        n++;
        if (path_out)
            snprintf(path_out, 256, "%s/%.140s", folder->blocks, entry->d_name);
    }
    if (open)
        closedir(open);
    return n;
}

uint32_t tier_folder_count(const struct tier_folder *folder)
{
    return look(folder, NULL);
}

void tier_folder_only(const struct tier_folder *folder, char path_out[256])
{
    cr_assert_eq(look(folder, path_out), 1);
}

size_t tier_block_bytes(void)
{
    return geometry_block_bytes(&TIER_GEOMETRY);
}

struct stored_block tier_block(uint64_t number, uint64_t parent, uint64_t origin)
{
    return (struct stored_block){.key = {.hash = {number, ~number}},
                                 .parent = {parent, parent ? ~parent : 0},
                                 .origin = origin};
}

void tier_fill(uint64_t number, uint8_t *bytes)
{
    for (size_t i = 0; i < tier_block_bytes(); i++)
        bytes[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
}

bool tier_is_filled(uint64_t number, const uint8_t *bytes)
{
    uint8_t wanted[4096];
    cr_assert(tier_block_bytes() <= sizeof wanted);
    tier_fill(number, wanted);
    return memcmp(wanted, bytes, tier_block_bytes()) == 0;
}

struct kv_files *tier_open(const struct tier_folder *folder, uint64_t n_files)
{
    struct error error = {""};
    struct kv_files *files = NULL;
    const struct kv_files_options options = {
        .folder = folder->path, .bytes_max = n_files * TIER_FILE_BYTES, .geometry = &TIER_GEOMETRY};
    cr_assert_eq(kv_files_open(&options, &error, &files), STATUS_OK, "%s", error.text);
    return files;
}

void tier_write(struct kv_files *files, uint64_t number, uint64_t parent, uint64_t origin)
{
    uint8_t bytes[4096];
    const struct stored_block block = tier_block(number, parent, origin);
    tier_fill(number, bytes);
    cr_assert_eq(KV_FILES_OPS.write(files, &block, bytes), STATUS_OK);
}

bool tier_read(struct kv_files *files, uint64_t number)
{
    uint8_t bytes[4096];
    uint64_t origin;
    const struct stored_block block = tier_block(number, 0, 0);
    if (KV_FILES_OPS.read(files, &block.key, bytes, &origin) != STATUS_OK)
        return false;
    cr_assert(tier_is_filled(number, bytes), "what is read is what was written");
    return true;
}

struct store_counts tier_counts(struct kv_files *files)
{
    struct store_counts now;
    KV_FILES_OPS.count(files, &now);
    return now;
}

bool tier_has(struct kv_files *files, uint64_t number)
{
    const struct stored_block block = tier_block(number, 0, 0);
    return KV_FILES_OPS.has(files, &block.key);
}

enum status tier_try_write(struct kv_files *files, uint64_t number)
{
    uint8_t bytes[4096];
    const struct stored_block block = tier_block(number, 0, 0);
    tier_fill(number, bytes);
    return KV_FILES_OPS.write(files, &block, bytes);
}
