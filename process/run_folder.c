#include "process/run_folder.h"

#include "base/log.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define USER_KEY     "user.key"
#define SERVE_PREFIX "serve-"
#define LEAVE_TRIES  4

/* A folder that others could rename what is in is no place for one of ours. */
static bool is_own_folder(const char *path, mode_t mode_not)
{
    struct stat stat;
    return lstat(path, &stat) == 0 && S_ISDIR(stat.st_mode) && stat.st_uid == geteuid() &&
           (stat.st_mode & mode_not) == 0;
}

static enum status try_folder(const char *path, struct error *error)
{
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return error_set(error, STATUS_IO_FAILED, "run folder %.200s: %s", path, strerror(errno));
    if (!is_own_folder(path, 077))
        return error_set(error, STATUS_IO_FAILED,
                         "run folder %.200s is there, and is not this user's alone (mode 0700)",
                         path);
    return STATUS_OK;
}

enum status run_folder_open(char path_out[RUN_PATH_MAX], struct error *error)
{
    const char *session = getenv("XDG_RUNTIME_DIR");
    int n = snprintf(path_out, RUN_PATH_MAX, "%s/kvferry", session ? session : "");
    bool is_session = session && session[0] == '/' && n < RUN_PATH_MAX - 64 &&
                      is_own_folder(session, 022);
    if (is_session && try_folder(path_out, error) == STATUS_OK)
        return STATUS_OK;
    if (geteuid() == 0) {
        snprintf(path_out, RUN_PATH_MAX, "/run/kvferry");
        if (try_folder(path_out, error) == STATUS_OK)
            return STATUS_OK;
    }
    snprintf(path_out, RUN_PATH_MAX, "/tmp/kvferry-%u", (unsigned)geteuid());
    enum status status = try_folder(path_out, error);
    if (status == STATUS_OK)
        return status;
    struct error of_shm; /* what is wrong with /tmp is what a person would mend */
    snprintf(path_out, RUN_PATH_MAX, "/dev/shm/kvferry.run-%u", (unsigned)geteuid());
    return try_folder(path_out, &of_shm) == STATUS_OK ? STATUS_OK : status;
}

enum status run_folder_user_key(char path_out[RUN_PATH_MAX], struct error *error)
{
    char folder[RUN_PATH_MAX];
    struct key_set keys;
    TRY(run_folder_open(folder, error));
    snprintf(path_out, RUN_PATH_MAX, "%.230s/%s", folder, USER_KEY);
    if (access(path_out, F_OK) == 0)
        return STATUS_OK;
    TRY(key_set_draw(&keys, error));
    enum status status = key_file_make(path_out, &keys, error);
    key_set_wipe(&keys);
    return status == STATUS_DUPLICATE_REQUEST ? STATUS_OK : status; /* another was first */
}

/* ---- keys of serves ---- */

/* Whether nobody holds its lock: who left it is gone. */
static bool is_abandoned(const char *path)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0)
        return false;
    bool is_free = flock(descriptor, LOCK_EX | LOCK_NB) == 0;
    close(descriptor);
    return is_free;
}

static bool sweep(const char *path)
{
    if (!is_abandoned(path))
        return false;
    log_debug("key of a process that is gone: %s", path);
    unlink(path);
    return true;
}

/* Its lock, unless somebody has swept the file before it could be locked: -1. */
static int lock_file(const char *path)
{
    struct stat named, opened;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (descriptor < 0)
        return -1;
    if (flock(descriptor, LOCK_EX | LOCK_NB) == 0 && fstat(descriptor, &opened) == 0 &&
        lstat(path, &named) == 0 && named.st_ino == opened.st_ino && opened.st_nlink > 0)
        return descriptor;
    close(descriptor);
    return -1;
}

enum status run_folder_leave(const struct key_set *keys, struct run_key *key_out,
                             struct error *error)
{
    char folder[RUN_PATH_MAX], path[RUN_PATH_MAX];
    assert(!key_out->path[0] && "a process leaves one key");
    TRY(run_folder_open(folder, error));
    snprintf(path, sizeof path, "%.200s/" SERVE_PREFIX "%ld.key", folder, (long)getpid());
    for (int i = 0; i < LEAVE_TRIES; i++) {
        (void)sweep(path); /* of another with this number */
        TRY(key_file_make(path, keys, error));
        int descriptor = lock_file(path);
        if (descriptor < 0)
            continue;
        key_out->descriptor = descriptor;
        memcpy(key_out->path, path, sizeof path);
        return STATUS_OK;
    }
    return error_set(error, STATUS_IO_FAILED, "%.200s cannot be locked", path);
}

void run_folder_take_away(struct run_key *key)
{
    if (!key->path[0])
        return;
    assert(key->descriptor >= 0 && "held since the key was left: else others sweep it");
    unlink(key->path);
    close(key->descriptor);
    key->path[0] = '\0';
}

static bool is_serves(const char *name)
{
    size_t n = strlen(name);
    return strncmp(name, SERVE_PREFIX, strlen(SERVE_PREFIX)) == 0 && n > 4 &&
           strcmp(name + n - 4, ".key") == 0;
}

uint32_t run_folder_keys(struct key_set *keys_out, uint32_t n)
{
    char folder[RUN_PATH_MAX], path[RUN_PATH_MAX];
    uint32_t count = 0;
    DIR *entries = run_folder_open(folder, NULL) == STATUS_OK ? opendir(folder) : NULL;
    const struct dirent *entry;
    while (entries && count < n && (entry = readdir(entries))) {
        snprintf(path, sizeof path, "%.150s/%.100s", folder, entry->d_name);
        if (is_serves(entry->d_name) && !sweep(path))
            count += key_file_read(path, &keys_out[count], NULL) == STATUS_OK;
    }
    assert(count <= n);
    if (entries)
        closedir(entries);
    snprintf(path, sizeof path, "%.200s/" USER_KEY, folder);
    if (entries && count < n)
        count += key_file_read(path, &keys_out[count], NULL) == STATUS_OK;
    return count;
}
