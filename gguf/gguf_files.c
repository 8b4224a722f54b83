#include "gguf/gguf_files.h"

#include "base/regular_file.h"
#include "gguf/gguf_config.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct held_file {
    const char *name;
    enum status (*make)(const struct gguf_file *file, json_t **root_out, struct error *error);
} HELD[] = {
    {"config.json", gguf_config_make},
    {"tokenizer.json", gguf_tokenizer_make},
    {"tokenizer_config.json", gguf_tokenizer_config_make},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct held_file *find(const char *name)
{
    for (size_t i = 0; i < COUNT(HELD); i++)
        if (strcmp(HELD[i].name, name) == 0)
            return &HELD[i];
    return NULL;
}

static bool holds(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode) && gguf_is(path);
}

static enum status write_all(int descriptor, const char *text, size_t n)
{
    while (n > 0) {
        ssize_t written = write(descriptor, text, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return errno_status(errno);
        text += written;
        n -= (size_t)written;
    }
    return STATUS_OK;
}

static enum status to_memory(const char *name, const char *text, size_t n, int *descriptor_out,
                             struct error *error)
{
    int descriptor = memfd_create(name, MFD_CLOEXEC);
    enum status status = descriptor < 0 ? errno_status(errno) : write_all(descriptor, text, n);
    if (status == STATUS_OK && lseek(descriptor, 0, SEEK_SET) != 0)
        status = errno_status(errno);
    if (status != STATUS_OK) {
        if (descriptor >= 0)
            close(descriptor);
        return error_set(error, status, "%s cannot be kept in memory: %s", name, strerror(errno));
    }
    *descriptor_out = descriptor;
    return STATUS_OK;
}

static enum status make(const struct held_file *held, const char *path, json_t **root_out,
                        struct error *error)
{
    struct gguf_file file;
    struct error cause = {""};
    TRY(gguf_open(path, &file, error));
    enum status status = held->make(&file, root_out, &cause);
    if (status != STATUS_OK && cause.text[0])
        error_set(error, status, "%.200s: %s", file.parts[0].name, cause.text);
    gguf_close(&file);
    return status;
}

static enum status open_held(const char *path, const char *name, uint64_t bytes_max,
                             int *descriptor_out, size_t *bytes_out, struct error *error)
{
    const struct held_file *held = find(name);
    json_t *root = NULL;
    if (!held)
        return error_set(error, STATUS_NOT_FOUND, "%.200s has no %.100s", path, name);
    TRY(make(held, path, &root, error));
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    if (!text)
        return error_set(error, STATUS_NO_MEMORY, "no memory for %s of %.200s", name, path);
    const size_t n = strlen(text);
    enum status status = n > bytes_max
                             ? error_set(error, STATUS_CORRUPT,
                                         "%s of %.200s has %zu bytes, more than the limit of %llu",
                                         name, path, n, (unsigned long long)bytes_max)
                             : to_memory(name, text, n, descriptor_out, error);
    free(text);
    *bytes_out = n;
    return status;
}

void gguf_files_init(void)
{
    regular_file_set_container(holds, open_held);
}
