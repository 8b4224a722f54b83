#include "model/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_plain_name(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Cuts the last component off; false when there is none. */
static bool cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return false;
    *slash = '\0';
    return true;
}

/* target and home are resolved paths: is target a file of home, or of its cache's blobs? */
static bool is_at_home(char *target, char *home)
{
    if (!cut_last(target))
        return false;
    if (strcmp(target, home) == 0)
        return true;
    if (!cut_last(home)) /* CACHE/snapshots */
        return false;
    const char *parent = strrchr(home, '/');
    if (!parent || strcmp(parent, "/snapshots") != 0)
        return false;
    const char *last = strrchr(target, '/');
    size_t cache_length = (size_t)(parent - home);
    return last && strcmp(last, "/blobs") == 0 && (size_t)(last - target) == cache_length &&
           strncmp(target, home, cache_length) == 0;
}

/* Both sides are resolved to the end, so that a chain of links, or a link in the folder's own path,
 * is judged by where it leads. */
static enum status check_path(const char *folder, const char *name, char path_out[PATH_MAX],
                              struct error *error)
{
    char home[PATH_MAX], target[PATH_MAX];
    if (!is_plain_name(name))
        return error_set(error, STATUS_CORRUPT, "\"%.200s\" is not a plain file name", name);
    if (snprintf(path_out, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return error_set(error, STATUS_CORRUPT, "%.200s: path is too long", name);
    if (!realpath(folder, home))
        return error_set(error, errno_status(errno), "%.200s: %s", folder, strerror(errno));
    if (!realpath(path_out, target))
        return error_set(error, errno_status(errno), "%.250s: %s", path_out, strerror(errno));
    if (!is_at_home(target, home))
        return error_set(error, STATUS_CORRUPT, "%.200s is a link out of the model's folder", name);
    return STATUS_OK;
}

static enum status map(int descriptor, const char *path, uint64_t bytes_max,
                       struct mapped_file *file_out, struct error *error)
{
    struct stat stat;
    if (fstat(descriptor, &stat) != 0)
        return error_set(error, errno_status(errno), "%.200s: %s", path, strerror(errno));
    if (!S_ISREG(stat.st_mode))
        return error_set(error, STATUS_CORRUPT, "%.200s is not a regular file", path);
    if ((uint64_t)stat.st_size > bytes_max)
        return error_set(error, STATUS_CORRUPT,
                         "%.200s has %llu bytes, more than the limit of %llu", path,
                         (unsigned long long)stat.st_size, (unsigned long long)bytes_max);
    struct mapped_file file = {NULL, (size_t)stat.st_size};
    if (file.bytes > 0) {
        void *data = mmap(NULL, file.bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (data == MAP_FAILED)
            return error_set(error, errno_status(errno), "%.200s: %s", path, strerror(errno));
        file.data = data;
    }
    *file_out = file;
    return STATUS_OK;
}

enum status mapped_file_open(const char *folder, const char *name, uint64_t bytes_max,
                             struct mapped_file *file_out, struct error *error)
{
    char path[PATH_MAX];
    TRY(check_path(folder, name, path, error));
    /* NONBLOCK: a FIFO must not hold the start. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return error_set(error, errno_status(errno), "%.250s: %s", path, strerror(errno));
    enum status status = map(descriptor, path, bytes_max, file_out, error);
    close(descriptor);
    return status;
}

void mapped_file_close(struct mapped_file *file)
{
    if (file->data)
        munmap((void *)(uintptr_t)file->data, file->bytes);
    *file = (struct mapped_file){0};
}
