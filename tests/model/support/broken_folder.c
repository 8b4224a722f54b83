#include "tests/model/support/broken_folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <ftw.h>
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char WEIGHTS[] = "model.safetensors";
static const char INDEX[] = "model.safetensors.index.json";

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
    cr_assert(stream, "%s", path);
    struct bytes file = {malloc(1 << 20), 0};
    file.n = fread(file.data, 1, 1 << 20, stream);
    cr_assert(feof(stream), "%s is larger than the tests expect", path);
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

static void write_weights(const char *folder, const char *header, uint64_t length, const char *data,
                          size_t n)
{
    size_t header_n = strlen(header);
    char *whole = malloc(8 + header_n + n);
    memcpy(whole, &length, 8);
    memcpy(whole + 8, header, header_n);
    memcpy(whole + 8 + header_n, data, n);
    write_file(folder, WEIGHTS, whole, 8 + header_n + n);
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
    if (what == HEADER_SET) {
        json_t *changes = json_of(argument, strlen(argument));
        cr_assert_eq(json_object_update_recursive(header, changes), 0);
        json_decref(changes);
    }
    char *text = what == HEADER_TEXT ? strdup(argument) : json_dumps(header, JSON_COMPACT);
    uint64_t written = what == HEADER_LENGTH ? strtoull(argument, NULL, 0) : strlen(text);
    write_weights(folder, text, written, data.data, data.n);
    free(text);
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
    const char *temporary = getenv("TMPDIR");
    snprintf(folder->path, sizeof folder->path, "%.200s/kvferry-model-XXXXXX",
             temporary ? temporary : "/tmp");
    cr_assert(mkdtemp(folder->path), "%s", folder->path);
    copy_files(original, folder->path);
    edit(folder->path, what, argument);
}

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
    (void)stat, (void)type, (void)walk;
    return remove(path);
}

void broken_folder_remove(struct broken_folder *folder)
{
    cr_assert_eq(nftw(folder->path, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0, "%s", folder->path);
}
