#include "kvtransfer/transport/shm_folder.h"

#include "base/log/log.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROOT   "/dev/shm"
#define PREFIX "kvferry-"

enum { ATTEMPTS_MAX = 100 };

/* Removes the folder and its contents. fd stays the caller's. */
static void remove_folder(int fd, const char *path)
{
    int copy = dup(fd);
    DIR *directory = copy >= 0 ? fdopendir(copy) : NULL;
    if (!directory && copy >= 0)
        close(copy);
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(fd, entry->d_name, 0);
    if (directory)
        closedir(directory);
    (void)rmdir(path); /* the next sweep tries again what cannot be removed now */
}

/* Opens a folder of this user. -1: it is not one. */
static int open_folder(const char *path)
{
    struct stat stat;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -1;
    if (fstat(fd, &stat) == 0 && stat.st_uid == geteuid())
        return fd;
    close(fd);
    return -1;
}

static void sweep(void)
{
    DIR *root = opendir(ROOT);
    for (struct dirent *entry; root && (entry = readdir(root));) {
        char path[sizeof ROOT + sizeof entry->d_name];
        if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) != 0)
            continue;
        snprintf(path, sizeof path, ROOT "/%s", entry->d_name);
        int fd = open_folder(path);
        if (fd < 0)
            continue;
        if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
            log_info("shared memory of a dead process removed: %s", path);
            remove_folder(fd, path);
        }
        close(fd);
    }
    if (root)
        closedir(root);
}

/* False: it cannot be locked, or another process removed it between mkdtemp and flock. */
static bool lock_folder(int fd)
{
    struct stat stat;
    return flock(fd, LOCK_EX) == 0 && fstat(fd, &stat) == 0 && stat.st_nlink > 0;
}

enum status shm_folder_open(struct shm_folder *folder, struct error *error)
{
    sweep();
    for (int i = 0; i < ATTEMPTS_MAX; i++) {
        struct shm_folder made = {.path = ROOT "/" PREFIX "XXXXXX"};
        if (!mkdtemp(made.path))
            break;
        made.fd = open_folder(made.path);
        if (made.fd >= 0 && lock_folder(made.fd)) {
            *folder = made;
            return STATUS_OK;
        }
        if (made.fd >= 0)
            close(made.fd);
    }
    return error_set(error, STATUS_UNSUPPORTED, "no folder for shared memory in " ROOT ": %m");
}

bool shm_folder_has(const char *path, size_t bytes)
{
    static const char START[] = ROOT "/" PREFIX;
    const size_t start = sizeof START - 1, folder = sizeof START - 1 + strlen("XXXXXX");
    return bytes > folder + 1 && memcmp(path, START, start) == 0 && path[folder] == '/' &&
           !memchr(path + start, '/', folder - start) &&
           !memchr(path + folder + 1, '/', bytes - folder - 1) && !memchr(path, '\0', bytes) &&
           path[folder + 1] != '.';
}

void shm_folder_close(struct shm_folder *folder)
{
    if (!folder->path[0])
        return;
    assert(folder->fd >= 0);
    remove_folder(folder->fd, folder->path);
    close(folder->fd);
    folder->path[0] = '\0';
}
