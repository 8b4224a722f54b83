/*
 * weight_files - maps the safetensors files of a model folder and makes one table of their tensors.
 *
 *     a GGUF file in place of the folder  its tensors (gguf_weights.h)
 *     model.safetensors                  the only file, if it exists
 *     model.safetensors.index.json       otherwise: {"weight_map": {tensor: file}, ...}
 *
 * Every tensor of the map must be in the file that the map names, and every tensor of the files must be
 * mapped to its file. So no tensor is in two files. File names have no folder (see mapped_file.h).
 *
 * Thread: open and close on one; immutable in between.
 */
#pragma once

#include "gguf/gguf_file.h"
#include "model/files/mapped_file.h"
#include "model/files/safetensors.h"

#define SHARDS_MAX           1024u
#define INDEX_JSON_BYTES_MAX (16u << 20)

struct weight_shard {
    char *name; /* "model-00001-of-00002.safetensors" */
    struct mapped_file file;
    struct safetensors tensors;
};

struct weight_entry {
    const struct safetensor *tensor;
    const struct weight_shard *shard;
};

struct weight_files {
    uint32_t n_shards;
    struct weight_shard *shards; /* [n_shards] */
    uint32_t n_entries;
    struct weight_entry *entries; /* [n_entries] by name */
    struct gguf_file gguf;        /* of a GGUF file: it maps the data, and shards have none of it */
};

/* NOT_FOUND, IO_FAILED, CORRUPT, UNSUPPORTED with a sentence; NO_MEMORY. */
MUST_CHECK enum status weight_files_open(const char *folder, struct weight_files *files_out,
                                         struct error *error);
void weight_files_close(struct weight_files *files); /* a zeroed one is fine */

/* NULL: there is none. Borrowed until close. */
const struct weight_entry *weight_files_find(const struct weight_files *files, const char *name);
