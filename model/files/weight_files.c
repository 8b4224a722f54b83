#include "model/files/weight_files.h"

#include "model/files/gguf_weights.h"
#include "model/files/json_fields.h"
#include "model/files/other_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char SINGLE_FILE[] = "model.safetensors";
static const char INDEX_FILE[] = "model.safetensors.index.json";

static enum status open_shard(const char *folder, const char *name, struct weight_files *files,
                              struct error *error)
{
    struct weight_shard *shard = &files->shards[files->n_shards++];
    shard->name = strdup(name);
    if (!shard->name)
        return STATUS_NO_MEMORY;
    TRY(mapped_file_open(folder, name, UINT64_MAX, &shard->file, error));
    return safetensors_parse(shard->file.data, shard->file.bytes, name, &shard->tensors, error);
}

static enum status reserve_shards(struct weight_files *files, size_t n)
{
    files->shards = calloc(n, sizeof *files->shards);
    return files->shards ? STATUS_OK : STATUS_NO_MEMORY;
}

static int by_name(const void *left, const void *right)
{
    const struct weight_entry *a = left, *b = right;
    return strcmp(a->tensor->name, b->tensor->name);
}

static enum status list_entries(struct weight_files *files)
{
    size_t n = 0;
    for (uint32_t s = 0; s < files->n_shards; s++)
        n += files->shards[s].tensors.n_tensors;
    files->entries = calloc(n + 1, sizeof *files->entries);
    if (!files->entries)
        return STATUS_NO_MEMORY;
    for (uint32_t s = 0; s < files->n_shards; s++) {
        const struct weight_shard *shard = &files->shards[s];
        for (uint32_t t = 0; t < shard->tensors.n_tensors; t++)
            files->entries[files->n_entries++] = (struct weight_entry){&shard->tensors.tensors[t],
                                                                       shard};
    }
    qsort(files->entries, files->n_entries, sizeof *files->entries, by_name);
    return STATUS_OK;
}

const struct weight_entry *weight_files_find(const struct weight_files *files, const char *name)
{
    const struct safetensor wanted = {.name = (char *)(uintptr_t)name};
    const struct weight_entry key = {.tensor = &wanted};
    return bsearch(&key, files->entries, files->n_entries, sizeof key, by_name);
}

/* ---- the index of a sharded model ---- */

static bool has_shard(const struct weight_files *files, const char *name)
{
    for (uint32_t s = 0; s < files->n_shards; s++)
        if (strcmp(files->shards[s].name, name) == 0)
            return true;
    return false;
}

static enum status check_shard_name(const char *tensor, const json_t *value, struct error *error)
{
    static const char ENDING[] = ".safetensors";
    const char *name = json_string_value(value);
    size_t ending = sizeof ENDING - 1, length = json_string_length(value);
    if (name && !strchr(name, '/') && length > ending &&
        strcmp(name + length - ending, ENDING) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_CORRUPT,
                     "%s: weight_map of %.100s is \"%.80s\", expected the name of a .safetensors "
                     "file in the folder",
                     INDEX_FILE, tensor, name ? name : "(no string)");
}

static enum status open_shards(const char *folder, const json_t *weight_map,
                               struct weight_files *files, struct error *error)
{
    const char *tensor;
    json_t *value;
    TRY(reserve_shards(files, SHARDS_MAX));
    json_object_foreach((json_t *)(uintptr_t)weight_map, tensor, value)
    {
        TRY(check_shard_name(tensor, value, error));
        if (has_shard(files, json_string_value(value)))
            continue;
        if (files->n_shards == SHARDS_MAX)
            return error_set(error, STATUS_CORRUPT, "%s: weight_map names more than %u files",
                             INDEX_FILE, SHARDS_MAX);
        TRY(open_shard(folder, json_string_value(value), files, error));
    }
    return list_entries(files);
}

/* Checks both directions: every mapped tensor is in its file, and every tensor of a file is mapped to this file. So
 * no tensor is in two files and none is missing. */
static enum status check_map(const json_t *weight_map, const struct weight_files *files,
                             struct error *error)
{
    const char *tensor;
    json_t *value;
    for (uint32_t i = 0; i < files->n_entries; i++) {
        const struct weight_entry *entry = &files->entries[i];
        const char *mapped = json_string_value(json_object_get(weight_map, entry->tensor->name));
        if (!mapped)
            return error_set(error, STATUS_CORRUPT,
                             "%s: tensor %.120s of %.80s is not in weight_map", INDEX_FILE,
                             entry->tensor->name, entry->shard->name);
        if (strcmp(mapped, entry->shard->name) != 0)
            return error_set(error, STATUS_CORRUPT,
                             "%s: weight_map says tensor %.100s is in %.60s, but %.60s holds one",
                             INDEX_FILE, entry->tensor->name, mapped, entry->shard->name);
    }
    json_object_foreach((json_t *)(uintptr_t)weight_map, tensor, value)
    {
        if (!weight_files_find(files, tensor))
            return error_set(error, STATUS_CORRUPT,
                             "%s: weight_map says tensor %.100s is in %.80s, which has none",
                             INDEX_FILE, tensor, json_string_value(value));
    }
    return STATUS_OK;
}

static enum status open_index(const char *folder, const struct mapped_file *index,
                              struct weight_files *files, struct error *error)
{
    json_t *root;
    const json_t *weight_map;
    TRY(json_fields_parse((const char *)index->data, index->bytes, INDEX_FILE, &root, error));
    struct json_fields fields = {root, INDEX_FILE, error};
    enum status status = json_fields_require(&fields, "weight_map");
    if (status == STATUS_OK)
        status = json_fields_object(&fields, "weight_map", &weight_map);
    if (status == STATUS_OK)
        status = open_shards(folder, weight_map, files, error);
    if (status == STATUS_OK)
        status = check_map(weight_map, files, error);
    json_decref(root);
    return status;
}

/* ---- one file or several ---- */

/* Two tensors may have one name once names are those of Transformers: a file may have both spellings. */
static enum status check_names(const struct weight_files *files, struct error *error)
{
    for (uint32_t i = 1; i < files->n_entries; i++)
        if (by_name(&files->entries[i - 1], &files->entries[i]) == 0)
            return error_set(error, STATUS_CORRUPT, "%.80s has tensor %.120s twice",
                             files->entries[i].shard->name, files->entries[i].tensor->name);
    return STATUS_OK;
}

static enum status open_gguf(const char *path, struct weight_files *files, struct error *error)
{
    TRY(gguf_open(path, &files->gguf, error));
    TRY(reserve_shards(files, files->gguf.n_parts));
    struct safetensors *tables = calloc(files->gguf.n_parts, sizeof *tables);
    enum status status = tables ? gguf_weights_list(&files->gguf, tables, error) : STATUS_NO_MEMORY;
    for (uint32_t part = 0; tables && part < files->gguf.n_parts; part++) {
        files->shards[part].tensors = tables[part];
        files->shards[part].name = strdup(files->gguf.parts[part].name);
        files->n_shards++;
        if (!files->shards[part].name)
            status = STATUS_NO_MEMORY;
    }
    free(tables);
    TRY(status);
    TRY(list_entries(files));
    return check_names(files, error);
}

static enum status open_any(const char *folder, struct weight_files *files, struct error *error)
{
    struct mapped_file probe = {0};
    if (gguf_is(folder))
        return open_gguf(folder, files, error);
    enum status status = mapped_file_open(folder, SINGLE_FILE, UINT64_MAX, &probe, error);
    if (status == STATUS_OK) {
        mapped_file_close(&probe);
        TRY(reserve_shards(files, 1));
        TRY(open_shard(folder, SINGLE_FILE, files, error));
        return list_entries(files);
    }
    if (status != STATUS_NOT_FOUND)
        return status;

    status = mapped_file_open(folder, INDEX_FILE, INDEX_JSON_BYTES_MAX, &probe, error);
    if (status == STATUS_NOT_FOUND)
        return error_set(error, status, "%.160s: neither %s nor %s is there%s", folder, SINGLE_FILE,
                         INDEX_FILE, other_format_advice(folder));
    if (status != STATUS_OK)
        return status;
    status = open_index(folder, &probe, files, error);
    mapped_file_close(&probe);
    return status;
}

enum status weight_files_open(const char *folder, struct weight_files *files_out,
                              struct error *error)
{
    struct weight_files files = {0};
    enum status status = open_any(folder, &files, error);
    if (status != STATUS_OK) {
        weight_files_close(&files);
        return status;
    }
    *files_out = files;
    return STATUS_OK;
}

void weight_files_close(struct weight_files *files)
{
    for (uint32_t s = 0; s < files->n_shards; s++) {
        safetensors_finish(&files->shards[s].tensors);
        mapped_file_close(&files->shards[s].file);
        free(files->shards[s].name);
    }
    free(files->shards);
    free(files->entries);
    gguf_close(&files->gguf);
    *files = (struct weight_files){0};
}
