#include "process/run_folder.h"

#include "base/log/log.h"
#include "base/text.h"

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
#define KEY_END      ".key"
#define PORTS_END    ".ports"
#define LEAVE_TRIES  4
#define PORTS_BYTES  2048 /* of a ports file; a longer one is ignored */

/* The folder must not be below one in which other users could rename it. */
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
                         "run folder %.200s exists and is open to other users (it needs mode 0700)",
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
    struct error of_shm; /* only the error for /tmp is reported: a person can fix that */
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
    return status == STATUS_DUPLICATE_REQUEST ? STATUS_OK : status; /* another process was first */
}

/* ---- ports of `kvferry serve` ---- */

/* The ports file next to the key. */
static void ports_path(const char *key_path, char path_out[RUN_PATH_MAX])
{
    size_t n = strlen(key_path) - strlen(KEY_END);
    snprintf(path_out, RUN_PATH_MAX, "%.*s" PORTS_END, (int)n, key_path);
}

void run_folder_tell_ports(const struct run_key *key, const uint16_t *ports, uint32_t n)
{
    char path[RUN_PATH_MAX], text[PORTS_BYTES];
    size_t used = 0;
    if (!key->path[0])
        return;
    assert(n <= RUN_PORTS_MAX);
    for (uint32_t i = 0; i < n; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%u\n", ports[i]);
    used += (size_t)snprintf(text + used, sizeof text - used, ".\n"); /* the file is complete */
    assert(used < sizeof text);
    ports_path(key->path, path);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0 || write(file, text, used) != (ssize_t)used)
        log_debug("%s: %s", path, strerror(errno)); /* then the key is tried for any port */
    if (file >= 0)
        close(file);
}

enum holder { HOLDS, MAY_HOLD, HOLDS_NOT };

/* Whether the process of the key has that port. Port 0 stands for any port. */
static enum holder holder_of(const char *key_path, uint16_t port)
{
    char path[RUN_PATH_MAX], text[PORTS_BYTES], wanted[16];
    ports_path(key_path, path);
    int file = port ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (file < 0)
        return port ? MAY_HOLD : HOLDS;
    ssize_t n = read(file, text + 1, sizeof text - 2);
    close(file);
    text[0] = '\n';
    text[n > 0 ? n + 1 : 1] = '\0';
    if (!strstr(text, "\n.\n"))
        return MAY_HOLD;
    snprintf(wanted, sizeof wanted, "\n%u\n", port);
    return strstr(text, wanted) ? HOLDS : HOLDS_NOT;
}

static void remove_ports(const char *key_path)
{
    char path[RUN_PATH_MAX];
    ports_path(key_path, path);
    unlink(path);
}

/* ---- keys of `kvferry serve` ---- */

/* Whether no process holds the lock of the key file: then the file's process has ended. */
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
    remove_ports(path);
    unlink(path);
    return true;
}

/* Locks the file. -1: another process has removed it or has locked it. */
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
    snprintf(path, sizeof path, "%.200s/" SERVE_PREFIX "%ld" KEY_END, folder, (long)getpid());
    for (int i = 0; i < LEAVE_TRIES; i++) {
        (void)sweep(path); /* of an earlier process with this id */
        remove_ports(path);
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
    remove_ports(key->path);
    unlink(key->path);
    close(key->descriptor);
    key->path[0] = '\0';
}

static bool is_serves(const char *name)
{
    return strncmp(name, SERVE_PREFIX, strlen(SERVE_PREFIX)) == 0 && text_ends_with(name, KEY_END);
}

static uint32_t serves_keys(const char *folder, uint16_t port, enum holder holder,
                            struct key_set *keys_out, uint32_t n)
{
    char path[RUN_PATH_MAX];
    uint32_t count = 0;
    DIR *entries = opendir(folder);
    const struct dirent *entry;
    while (entries && count < n && (entry = readdir(entries))) {
        snprintf(path, sizeof path, "%.150s/%.100s", folder, entry->d_name);
        if (is_serves(entry->d_name) && !sweep(path) && holder_of(path, port) == holder)
            count += key_file_read(path, &keys_out[count], NULL) == STATUS_OK;
    }
    if (entries)
        closedir(entries);
    return count;
}

uint32_t run_folder_keys(uint16_t port, struct key_set *keys_out, uint32_t n)
{
    char folder[RUN_PATH_MAX], path[RUN_PATH_MAX];
    if (run_folder_open(folder, NULL) != STATUS_OK)
        return 0;
    uint32_t count = serves_keys(folder, port, HOLDS, keys_out, n);
    snprintf(path, sizeof path, "%.200s/" USER_KEY, folder);
    if (count < n)
        count += key_file_read(path, &keys_out[count], NULL) == STATUS_OK;
    count += serves_keys(folder, port, MAY_HOLD, keys_out + count, n - count);
    count += serves_keys(folder, port, HOLDS_NOT, keys_out + count,
                         n - count); /* the port may be that of a proxy */
    assert(count <= n);
    return count;
}
