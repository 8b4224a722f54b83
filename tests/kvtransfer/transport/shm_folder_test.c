/* shm_folder: whatever a process was doing when it was killed, the next one that starts removes what it
 * left in /dev/shm, and touches nothing of the living. */
#include "base/clock.h"
#include "kvtransfer/drivers/stream/stream_transport.h"
#include "kvtransfer/transport/shm_folder.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_NS (20 * NS_PER_S)

static bool is_there(const char *path)
{
    struct stat stat;
    return lstat(path, &stat) == 0;
}

/* ---- a process with a socket in such a folder: a child, which says when it is ready ---- */

struct child {
    pid_t pid;
    int out;
};

static void run_child(int out)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const struct stream_options options = {
        .driver = STREAM_UNIX, .incarnation = 1, .peers_max = 1, .gets_max = 1, .reads_max = 1};
    struct transport *transport;
    struct error error = {""};
    if (stream_transport_open(&options, &transport, &error) != STATUS_OK)
        _exit(1);
    if (write(out, "r", 1) != 1)
        _exit(2);
    for (;;)
        pause();
}

static struct child child_start(void)
{
    int fds[2];
    struct child child;
    cr_assert_eq(pipe(fds), 0);
    child.pid = fork();
    cr_assert_geq(child.pid, 0);
    if (child.pid == 0)
        run_child(fds[1]);
    close(fds[1]);
    child.out = fds[0];
    return child;
}

static bool is_ready(const struct child *child, int timeout_ms)
{
    struct pollfd wanted = {.fd = child->out, .events = POLLIN};
    return poll(&wanted, 1, timeout_ms) == 1;
}

static void child_wait_ready(const struct child *child)
{
    char byte;
    cr_assert(is_ready(child, (int)(LIMIT_NS / NS_PER_MS)), "it does not start");
    cr_assert_eq(read(child->out, &byte, 1), 1, "it has ended");
}

static void child_kill(const struct child *child)
{
    cr_assert_eq(kill(child->pid, SIGKILL), 0);
    cr_assert_eq(waitpid(child->pid, NULL, 0), child->pid);
    close(child->out);
}

/* The folder of /dev/shm that that process has locked, by its open descriptors. False: none. */
static bool folder_of(const struct child *child, char *path_out, size_t path_bytes)
{
    char list[64];
    bool is_found = false;
    snprintf(list, sizeof list, "/proc/%d/fd", child->pid);
    DIR *directory = opendir(list);
    for (struct dirent *entry; directory && !is_found && (entry = readdir(directory));) {
        char link[sizeof entry->d_name + sizeof list];
        snprintf(link, sizeof link, "%s/%s", list, entry->d_name);
        ssize_t n = readlink(link, path_out, path_bytes - 1);
        struct stat stat;
        if (n <= 0)
            continue;
        path_out[n] = '\0';
        is_found = strncmp(path_out, "/dev/shm/kvferry-", 17) == 0 && !strchr(path_out + 17, '/') &&
                   lstat(path_out, &stat) == 0 && S_ISDIR(stat.st_mode);
    }
    if (directory)
        closedir(directory);
    return is_found;
}

/* Kills a process as soon as it has a folder open, or when it is ready. True: that folder stays behind. It is the process's own, or
 * the one that it was just removing. */
static bool leave_behind(bool when_ready, char *path_out, size_t path_bytes)
{
    struct child child = child_start();
    uint64_t until_ns = clock_now_ns() + LIMIT_NS;
    bool has_started, is_found;
    do {
        has_started = is_ready(&child, 0);
        is_found = folder_of(&child, path_out, path_bytes);
        cr_assert_lt(clock_now_ns(), until_ns);
    } while (!has_started && (when_ready || !is_found));
    child_kill(&child);
    return is_found && is_there(path_out);
}

Test(shm_folder, of_a_process_killed_while_it_starts_is_removed_by_the_next)
{
    char alive_path[256], dead_path[256], next_path[256];
    struct child alive = child_start();
    child_wait_ready(&alive);
    cr_assert(folder_of(&alive, alive_path, sizeof alive_path));
    for (int i = 0; i < 4; i++) {
        int attempts = 100;
        while (!leave_behind(i % 2, dead_path, sizeof dead_path))
            cr_assert_gt(attempts--, 0, "it is never killed in time");
        struct child next = child_start();
        child_wait_ready(&next);
        cr_assert(folder_of(&next, next_path, sizeof next_path));
        cr_assert_not(is_there(dead_path), "%s stays", dead_path);
        cr_assert(is_there(alive_path), "the living one's is gone");
        child_kill(&next);
    }
    child_kill(&alive);
    struct shm_folder mine;
    cr_assert_eq(shm_folder_open(&mine, NULL), STATUS_OK);
    cr_assert_not(is_there(alive_path));
    snprintf(next_path, sizeof next_path, "%s", mine.path);
    cr_assert(is_there(next_path));
    shm_folder_close(&mine);
    cr_assert_not(is_there(next_path));
}

Test(shm_folder, is_swept_only_when_it_is_a_folder_of_ours)
{
    char target[] = "/tmp/kvferry-shm-XXXXXX", file[64], link[64] = "", other[64] = "";
    struct shm_folder folder;
    cr_assert_not_null(mkdtemp(target));
    snprintf(file, sizeof file, "%s/file", target);
    snprintf(link, sizeof link, "/dev/shm/kvferry-link-%d", getpid());
    snprintf(other, sizeof other, "/dev/shm/other-%d", getpid());
    int fd = open(file, O_CREAT | O_WRONLY, 0600);
    cr_assert_geq(fd, 0);
    close(fd);
    cr_assert_eq(symlink(target, link), 0);
    cr_assert_eq(mkdir(other, 0700), 0);
    cr_assert_eq(shm_folder_open(&folder, NULL), STATUS_OK);
    cr_expect(is_there(file) && is_there(link) && is_there(other));
    shm_folder_close(&folder);
    shm_folder_close(&folder); /* again is fine */
    unlink(link);
    unlink(file);
    rmdir(other);
    rmdir(target);
}
