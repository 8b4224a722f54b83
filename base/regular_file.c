#include "base/regular_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_plain_name(const char *name)
{
    return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* Removes the last component; false: there is none. */
static bool cut_last(char *path)
{
    char *slash = strrchr(path, '/');
    if (!slash || slash == path)
        return false;
    *slash = '\0';
    return true;
}

/* Whether target is below home, or is a blob of home's cache. Both are resolved paths. */
static bool is_at_home(char *target, char *home)
{
    size_t home_length = strlen(home);
    if (strncmp(target, home, home_length) == 0 && target[home_length] == '/')
        return true;
    if (!cut_last(target) || !cut_last(home)) /* CACHE/snapshots */
        return false;
    const char *parent = strrchr(home, '/');
    if (!parent || strcmp(parent, "/snapshots") != 0)
        return false;
    const char *last = strrchr(target, '/');
    size_t cache_length = (size_t)(parent - home);
    return last && strcmp(last, "/blobs") == 0 && (size_t)(last - target) == cache_length &&
           strncmp(target, home, cache_length) == 0;
}

/* Both paths are fully resolved, so that a chain of links, or a link in the path of the folder, is
 * judged by its target. */
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

static enum status check_open(int descriptor, const char *path, uint64_t bytes_max,
                              size_t *bytes_out, struct error *error)
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
    *bytes_out = (size_t)stat.st_size;
    return STATUS_OK;
}

static enum status open_path(const char *path, uint64_t bytes_max, int *descriptor_out,
                             size_t *bytes_out, struct error *error)
{
    /* NONBLOCK: a FIFO or a device must not block the start. NOCTTY: a terminal must not become the
     * controlling one. */
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return error_set(error, errno_status(errno), "%.250s: %s", path, strerror(errno));
    enum status status = check_open(descriptor, path, bytes_max, bytes_out, error);
    if (status != STATUS_OK) {
        close(descriptor);
        return status;
    }
    *descriptor_out = descriptor;
    return STATUS_OK;
}

static bool (*container_holds)(const char *path);
static regular_file_opener container_opener;

void regular_file_set_container(bool (*holds)(const char *path), regular_file_opener opener)
{
    container_holds = holds;
    container_opener = opener;
}

enum status regular_file_open_in(const char *folder, const char *name, uint64_t bytes_max,
                                 int *descriptor_out, size_t *bytes_out, struct error *error)
{
    char path[PATH_MAX];
    if (container_holds && container_holds(folder))
        return container_opener(folder, name, bytes_max, descriptor_out, bytes_out, error);
    TRY(check_path(folder, name, path, error));
    return open_path(path, bytes_max, descriptor_out, bytes_out, error);
}

/* Reads up to *bytes_inout bytes, fewer if the file ends earlier. */
static enum status read_all(int descriptor, char *text, size_t *bytes_inout)
{
    size_t done = 0;
    while (done < *bytes_inout) {
        ssize_t n = read(descriptor, text + done, *bytes_inout - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno_status(errno);
        if (n == 0)
            break;
        done += (size_t)n;
    }
    *bytes_inout = done;
    return STATUS_OK;
}

/* Closes the descriptor. */
static enum status take(int descriptor, size_t bytes, const char *name, char **text_out,
                        size_t *bytes_out, struct error *error)
{
    char *text = malloc(bytes + 1);
    enum status status = text ? read_all(descriptor, text, &bytes)
                              : error_set(error, STATUS_NO_MEMORY,
                                          "no memory for the %zu bytes of %.200s", bytes, name);
    if (text && status != STATUS_OK)
        error_write(error, "%.200s: %s", name, strerror(errno));
    close(descriptor);
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    text[bytes] = '\0';
    *text_out = text;
    *bytes_out = bytes;
    return STATUS_OK;
}

enum status regular_file_read(const char *path, uint64_t bytes_max, char **text_out,
                              size_t *bytes_out, struct error *error)
{
    int descriptor = -1;
    size_t bytes = 0;
    TRY(open_path(path, bytes_max, &descriptor, &bytes, error));
    return take(descriptor, bytes, path, text_out, bytes_out, error);
}

enum status regular_file_read_in(const char *folder, const char *name, uint64_t bytes_max,
                                 char **text_out, size_t *bytes_out, struct error *error)
{
    int descriptor = -1;
    size_t bytes = 0;
    TRY(regular_file_open_in(folder, name, bytes_max, &descriptor, &bytes, error));
    return take(descriptor, bytes, name, text_out, bytes_out, error);
}

static bool is_same_time(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

enum status regular_file_check_place(const char *path, struct error *error)
{
    struct stat there;
    if (stat(path, &there) != 0 || S_ISREG(there.st_mode))
        return STATUS_OK;
    return error_set(error, STATUS_IO_FAILED, "%.200s cannot be written: it is not a regular file",
                     path);
}

bool regular_file_is_same(const struct stat *before, const struct stat *now)
{
    return before->st_dev == now->st_dev && before->st_ino == now->st_ino &&
           before->st_size == now->st_size && is_same_time(&before->st_mtim, &now->st_mtim) &&
           is_same_time(&before->st_ctim, &now->st_ctim);
}
