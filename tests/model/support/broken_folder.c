#include "tests/model/support/broken_folder.h"

#include "kernels/dtype.h"
#include "tests/base/support/folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char WEIGHTS[] = "model.safetensors";
static const char INDEX[] = "model.safetensors.index.json";

enum { MORE_BYTES = 1 << 20 }; /* that an edit may add to a file */

struct bytes {
    char *data;
    size_t n;
};

static void path_of(const char *folder, const char *name, char path_out[512])
{
    snprintf(path_out, 512, "%s/%s", folder, name);
}

static struct bytes read_file(const char *folder, const char *name)
{
    char path[512];
    path_of(folder, name, path);
    FILE *stream = fopen(path, "rb");
    cr_assert(stream && fseek(stream, 0, SEEK_END) == 0, "%s", path);
    size_t n = (size_t)ftell(stream);
    struct bytes file = {malloc(n + MORE_BYTES), n};
    rewind(stream);
    cr_assert(file.data && fread(file.data, 1, n, stream) == n, "%s", path);
    fclose(stream);
    return file;
}

static void write_file(const char *folder, const char *name, const void *data, size_t n)
{
    char path[512];
    path_of(folder, name, path);
    FILE *stream = fopen(path, "wb");
    cr_assert(stream && fwrite(data, 1, n, stream) == n && fclose(stream) == 0, "%s", path);
}

static void remove_file(const char *folder, const char *name)
{
    char path[512];
    path_of(folder, name, path);
    cr_assert_eq(unlink(path), 0, "%s", path);
}

static json_t *json_of(const char *text, size_t n)
{
    json_error_t error;
    json_t *root = json_loadb(text, n, 0, &error);
    cr_assert(root, "%s: %.60s", error.text, text);
    return root;
}

/* Merges argument into the file's object, or into the member of that name; or removes a key. */
static void edit_json(const char *folder, const char *name, const char *member,
                      const char *argument, int is_removal)
{
    struct bytes file = read_file(folder, name);
    json_t *root = json_of(file.data, file.n);
    json_t *object = member ? json_object_get(root, member) : root;
    if (is_removal) {
        cr_assert_eq(json_object_del(object, argument), 0, "%s", argument);
    } else {
        json_t *changes = json_of(argument, strlen(argument));
        cr_assert_eq(json_object_update_recursive(object, changes), 0);
        json_decref(changes);
    }
    char *text = json_dumps(root, JSON_INDENT(1));
    write_file(folder, name, text, strlen(text));
    free(text);
    json_decref(root);
    free(file.data);
}

/* ---- model.safetensors ---- */

static uint64_t header_length(const struct bytes *file)
{
    uint64_t length;
    memcpy(&length, file->data, sizeof length);
    return length;
}

static void write_weights(const char *folder, const char *name, const char *header, uint64_t length,
                          const char *data, size_t n)
{
    size_t header_n = strlen(header);
    char *whole = malloc(8 + header_n + n);
    memcpy(whole, &length, 8);
    memcpy(whole + 8, header, header_n);
    memcpy(whole + 8 + header_n, data, n);
    write_file(folder, name, whole, 8 + header_n + n);
    free(whole);
}

static void add_tensor(json_t *header, const char *argument, struct bytes *data)
{
    const char *name;
    json_t *dtype, *changes = json_of(argument, strlen(argument));
    json_object_foreach(changes, name, dtype)
    {
        const char *dtype_name = json_string_value(dtype);
        size_t n = strcmp(dtype_name, "F64") == 0 ? 8 : strcmp(dtype_name, "BF16") == 0 ? 2 : 4;
        json_object_set_new(header, name,
                            json_pack("{s:s,s:[i],s:[I,I]}", "dtype", dtype_name, "shape", 1,
                                      "data_offsets", (json_int_t)data->n,
                                      (json_int_t)(data->n + n)));
        memset(data->data + data->n, 0, n);
        data->n += n;
    }
    json_decref(changes);
}

/* Where a tensor's bytes are in the data. */
static struct bytes tensor_bytes(const json_t *header, const char *name, const struct bytes *data)
{
    const json_t *offsets = json_object_get(json_object_get(header, name), "data_offsets");
    cr_assert(offsets, "%s", name);
    size_t from = (size_t)json_integer_value(json_array_get(offsets, 0));
    return (struct bytes){data->data + from,
                          (size_t)json_integer_value(json_array_get(offsets, 1)) - from};
}

/* The entry of a tensor whose n bytes lie at that offset. */
static json_t *moved(const json_t *entry, size_t offset, size_t n)
{
    return json_pack("{s:O,s:O,s:[I,I]}", "dtype", json_object_get(entry, "dtype"), "shape",
                     json_object_get(entry, "shape"), "data_offsets", (json_int_t)offset,
                     (json_int_t)(offset + n));
}

static void copy_tensor(json_t *header, const char *argument, struct bytes *data)
{
    char name[128];
    const char *original = strchr(argument, '=') + 1;
    snprintf(name, sizeof name, "%.*s", (int)(original - 1 - argument), argument);
    struct bytes from = tensor_bytes(header, original, data);
    cr_assert_leq(from.n, MORE_BYTES);
    memcpy(data->data + data->n, from.data, from.n);
    json_object_set_new(header, name, moved(json_object_get(header, original), data->n, from.n));
    data->n += from.n;
}

static void set_element(const json_t *header, const char *argument, struct bytes *data)
{
    char name[128], value[32];
    unsigned long n;
    cr_assert_eq(sscanf(argument, "%127[^=]=%lu=%31s", name, &n, value), 3, "%s", argument);
    const struct bytes tensor = tensor_bytes(header, name, data);
    const json_t *dtype = json_object_get(json_object_get(header, name), "dtype");
    const bool is_bf16 = strcmp(json_string_value(dtype), "BF16") == 0;
    cr_assert_lt((n + 1) * (is_bf16 ? 2 : 4), tensor.n + 1, "%s", argument);
    dtype_store(is_bf16 ? DTYPE_BF16 : DTYPE_F32, tensor.data, n, strtof(value, NULL));
}

static void strip_tensors(json_t *header, const char *prefix)
{
    const char *name;
    json_t *entry, *stripped = json_object();
    size_t length = strlen(prefix);
    json_object_foreach(header, name, entry)
        json_object_set(stripped, strncmp(name, prefix, length) == 0 ? name + length : name, entry);
    json_object_clear(header);
    json_object_update(header, stripped);
    json_decref(stripped);
}

static void flip_tensor(const json_t *header, const char *name, struct bytes *data)
{
    struct bytes tensor = tensor_bytes(header, name, data);
    tensor.data[tensor.n / 2] ^= 1;
}

static void edit_header(const char *folder, enum broken_what what, const char *argument)
{
    struct bytes file = read_file(folder, WEIGHTS);
    uint64_t length = header_length(&file);
    struct bytes data = {file.data + 8 + length, file.n - 8 - length};
    json_t *header = json_of(file.data + 8, length);
    if (what == HEADER_REMOVE)
        cr_assert_eq(json_object_del(header, argument), 0);
    if (what == TENSOR_ADD)
        add_tensor(header, argument, &data);
    if (what == TENSOR_COPY)
        copy_tensor(header, argument, &data);
    if (what == TENSOR_SET)
        set_element(header, argument, &data);
    if (what == TENSOR_STRIP)
        strip_tensors(header, argument);
    if (what == TENSOR_FLIP)
        flip_tensor(header, argument, &data);
    if (what == HEADER_SET) {
        json_t *changes = json_of(argument, strlen(argument));
        cr_assert_eq(json_object_update_recursive(header, changes), 0);
        json_decref(changes);
    }
    char *text = what == HEADER_TEXT ? strdup(argument) : json_dumps(header, JSON_COMPACT);
    uint64_t written = what == HEADER_LENGTH ? strtoull(argument, NULL, 0) : strlen(text);
    write_weights(folder, WEIGHTS, text, written, data.data, data.n);
    free(text);
    json_decref(header);
    free(file.data);
}

/* Every n-th tensor from the last to the first, beginning with that one. */
static void write_shard(const char *folder, const char *file, const json_t *header,
                        const struct bytes *data, size_t first, size_t n, json_t *weight_map)
{
    const char *names[512];
    size_t n_names = 0;
    const char *name;
    json_t *entry, *own = json_object();
    struct bytes out = {malloc(data->n + 1), 0};
    json_object_foreach((json_t *)header, name, entry)
    {
        cr_assert_lt(n_names, sizeof names / sizeof *names);
        if (strcmp(name, "__metadata__") != 0)
            names[n_names++] = name;
    }
    for (size_t i = first; i < n_names; i += n) {
        name = names[n_names - 1 - i];
        struct bytes tensor = tensor_bytes(header, name, data);
        json_object_set_new(own, name, moved(json_object_get(header, name), out.n, tensor.n));
        json_object_set_new(weight_map, name, json_string(file));
        memcpy(out.data + out.n, tensor.data, tensor.n);
        out.n += tensor.n;
    }
    char *text = json_dumps(own, JSON_COMPACT);
    write_weights(folder, file, text, strlen(text), out.data, out.n);
    free(text);
    free(out.data);
    json_decref(own);
}

static void cut_into_shards(const char *folder, const char *argument)
{
    struct bytes file = read_file(folder, WEIGHTS);
    uint64_t length = header_length(&file);
    struct bytes data = {file.data + 8 + length, file.n - 8 - length};
    json_t *header = json_of(file.data + 8, length);
    json_t *weight_map = json_object(), *index = json_pack("{s:o}", "weight_map", weight_map);
    size_t n = strtoul(argument, NULL, 10);
    for (size_t i = 0; i < n; i++) {
        char name[64];
        snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, n);
        write_shard(folder, name, header, &data, i, n, weight_map);
    }
    char *text = json_dumps(index, 0);
    write_file(folder, INDEX, text, strlen(text));
    remove_file(folder, WEIGHTS);
    free(text);
    json_decref(index);
    json_decref(header);
    free(file.data);
}

/* ---- whole files ---- */

static void edit_file(const char *folder, enum broken_what what, const char *name,
                      const char *value)
{
    char path[512], target[512];
    struct bytes file = {NULL, 0};
    if (what == FILE_CUT || what == FILE_APPEND)
        file = read_file(folder, name);
    if (what == FILE_TEXT)
        write_file(folder, name, value, strlen(value));
    if (what == FILE_CUT) {
        long n = strtol(value, NULL, 10);
        write_file(folder, name, file.data, n < 0 ? file.n - (size_t)-n : (size_t)n);
    }
    if (what == FILE_APPEND) {
        memcpy(file.data + file.n, value, strlen(value));
        write_file(folder, name, file.data, file.n + strlen(value));
    }
    if (what == FILE_LINK) {
        path_of(folder, name, path);
        snprintf(target, sizeof target, "%s%s", *value == '~' ? folder : "",
                 *value == '~' ? value + 1 : value);
        unlink(path);
        cr_assert_eq(symlink(target, path), 0);
    }
    free(file.data);
}

static void edit_named(const char *folder, enum broken_what what, const char *argument)
{
    char name[128];
    const char *equals = strchr(argument, '=');
    cr_assert(equals);
    snprintf(name, sizeof name, "%.*s", (int)(equals - argument), argument);
    edit_file(folder, what, name, equals + 1);
}

static void edit(const char *folder, enum broken_what what, const char *argument)
{
    char path[512];
    switch (what) {
    case NOTHING:
        return;
    case CONFIG_SET:
    case CONFIG_REMOVE:
        edit_json(folder, "config.json", NULL, argument, what == CONFIG_REMOVE);
        return;
    case INDEX_SET:
    case INDEX_REMOVE:
        edit_json(folder, INDEX, "weight_map", argument, what == INDEX_REMOVE);
        return;
    case FILE_REMOVE:
        remove_file(folder, argument);
        return;
    case FILE_FIFO:
        remove_file(folder, argument);
        path_of(folder, argument, path);
        cr_assert_eq(mkfifo(path, 0600), 0);
        return;
    case FILE_TEXT:
    case FILE_CUT:
    case FILE_APPEND:
    case FILE_LINK:
        edit_named(folder, what, argument);
        return;
    case SHARDS:
        cut_into_shards(folder, argument);
        return;
    default:
        edit_header(folder, what, argument);
    }
}

/* ---- the folder ---- */

static void copy_files(const char *from, const char *to)
{
    DIR *directory = opendir(from);
    cr_assert(directory, "%s", from);
    for (struct dirent *entry; (entry = readdir(directory));) {
        if (entry->d_name[0] == '.' || strncmp(entry->d_name, "golden", 6) == 0)
            continue;
        struct bytes file = read_file(from, entry->d_name);
        write_file(to, entry->d_name, file.data, file.n);
        free(file.data);
    }
    closedir(directory);
}

void broken_folder_make(struct broken_folder *folder, const char *original, enum broken_what what,
                        const char *argument)
{
    folder_make(folder->path, sizeof folder->path, "model");
    copy_files(original, folder->path);
    edit(folder->path, what, argument);
}

void broken_folder_edit(const struct broken_folder *folder, enum broken_what what,
                        const char *argument)
{
    edit(folder->path, what, argument);
}

void broken_folder_link_all(const struct broken_folder *folder, const char *place,
                            const char *towards)
{
    DIR *directory = opendir(folder->path);
    cr_assert(directory, "%s", folder->path);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char path[512], target[512];
        if (entry->d_name[0] == '.')
            continue;
        path_of(place, entry->d_name, path);
        path_of(towards, entry->d_name, target);
        cr_assert_eq(symlink(target, path), 0);
    }
    closedir(directory);
}

void broken_folder_remove(struct broken_folder *folder)
{
    folder_remove(folder->path);
}
