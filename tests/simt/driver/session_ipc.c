/* Two processes with a device each: what one has exported the other maps, measures, copies out of and lets go, before it is freed. */
#include "base/crc32c.h"
#include "tests/simt/driver/session.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECES = 40, PIECE_BYTES = 5000, POOL_BYTES = 2 << 20 };

/* Of the process on the other side: how a second one of this program finds its end of the socket. */
#define PEER "SESSION_PEER"

extern char **environ;

static pid_t start_peer(int fd)
{
    char number[16], name[] = "session", scenario[] = "ipc", *argv[] = {name, scenario, NULL};
    pid_t pid;
    snprintf(number, sizeof number, "%d", fd);
    const char *const asides[] = {"DOUBLE_FAIL", "DOUBLE_LOG"}; /* those of this one */
    for (size_t i = 0; i < sizeof asides / sizeof *asides; i++)
        unsetenv(asides[i]); /* they have been read */
    setenv(PEER, number, 1);
    MUST(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) == 0);
    return pid;
}

/* A peer that has ended is its own end: nothing that it would see is wrong here. */
static void say(int fd, const void *bytes, size_t n)
{
    if (send(fd, bytes, n, MSG_NOSIGNAL) != (ssize_t)n)
        _exit(0);
}

static void hear(int fd, void *bytes, size_t n)
{
    if (recv(fd, bytes, n, MSG_WAITALL) != (ssize_t)n)
        _exit(0);
}

static void wait_for_copies(struct device *device)
{
    CHECK(device_wait(device, device_record(device, DEVICE_COPY)));
}

static void fill(struct device *device, const struct device_memory *pool, uint8_t value)
{
    uint8_t *view;
    const size_t bytes = PIECES * PIECE_BYTES;
    CHECK(device_write_begin(device, pool->base, bytes, &view));
    for (size_t i = 0; i < bytes; i++)
        view[i] = (uint8_t)(value + i % 251);
    device_write(device, DEVICE_COPY, pool->base, view, bytes);
    wait_for_copies(device);
}

static void import(struct device *device, const struct device_handle *handle,
                   struct device_mapping *mapping_out)
{
    struct error error = {""};
    enum status status = device_import(device, handle, mapping_out, &error);
    if (status != STATUS_OK)
        fprintf(stderr, "session: %s\n", error.text);
    CHECK(status);
}

/* Pieces in another order than they lie, then the digest of all, on the copy queue and without a wait in between. */
static void copy_and_check(struct device *device, const struct device_mapping *theirs,
                           const struct device_memory *target, uint8_t value)
{
    const uint8_t *view;
    const size_t bytes = PIECES * PIECE_BYTES;
    uint32_t digest = 0;
    for (size_t i = 0; i < PIECES; i++) {
        const size_t at = i * 7 % PIECES * PIECE_BYTES;
        device_copy(device, DEVICE_COPY, target->base + at, theirs->base + at, PIECE_BYTES);
    }
    device_digest(device, DEVICE_COPY, target->base, bytes, &digest);
    CHECK(device_read(device, DEVICE_COPY, target->base, bytes, &view));
    wait_for_copies(device);
    for (size_t i = 0; i < bytes; i++)
        MUST(view[i] == (uint8_t)(value + i % 251));
    MUST(digest == crc32c(0, view, bytes));
    device_read_end(device, view);
}

/* What leads nowhere is refused, and the device goes on. */
void session_rubbish(struct device *device)
{
    struct device_handle rubbish;
    struct device_mapping mapping = {0};
    struct error error = {""};
    for (int byte = 0; byte < 256; byte += 85) {
        memset(&rubbish, byte, sizeof rubbish);
        MUST(device_import(device, &rubbish, &mapping, &error) == STATUS_UNSUPPORTED);
        MUST(strstr(error.text, "cuIpcOpenMemHandle failed") && !mapping.base);
    }
    MUST(!device_is_lost(device));
}

/* Both do so. Each fills its pool by its own value. */
static void exchange(struct device *device, int fd, uint8_t own_value, uint8_t their_value)
{
    struct device_memory pool, target;
    struct device_mapping theirs, again;
    struct device_handle handle, their_handle;
    struct error error = {""};
    char closed = 0;
    CHECK(device_allocate(device, DEVICE_KV, POOL_BYTES, &pool));
    CHECK(device_allocate(device, DEVICE_KV, POOL_BYTES, &target));
    fill(device, &pool, own_value);
    enum status status = device_export(device, &pool, &handle, &error);
    if (status != STATUS_OK)
        fprintf(stderr, "session: %s\n", error.text);
    CHECK(status);
    say(fd, &handle, sizeof handle);
    hear(fd, &their_handle, sizeof their_handle);
    import(device, &their_handle, &theirs);
    MUST(theirs.bytes == POOL_BYTES);
    copy_and_check(device, &theirs, &target, their_value);
    import(device, &their_handle, &again); /* it is counted */
    MUST(again.base == theirs.base);
    device_import_close(device, &theirs);
    copy_and_check(device, &again, &target, their_value);
    device_import_close(device, &again);
    MUST(!again.base && !theirs.base);
    wait_for_copies(device);
    say(fd, &closed, 1);
    hear(fd, &closed, 1);
    device_free(device, &target);
    device_free(device, &pool);
}

void session_ipc(struct device *device)
{
    enum { FIRST = 11, SECOND = 200 };
    const char *peer = getenv(PEER);
    int fds[2], how = 0;
    MUST(device_can_export(device));
    if (peer) {
        exchange(device, (int)strtol(peer, NULL, 10), SECOND, FIRST);
        return;
    }
    MUST(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    MUST(fcntl(fds[0], F_SETFD, FD_CLOEXEC) == 0); /* so that it hears this one's end */
    pid_t pid = start_peer(fds[1]);
    close(fds[1]);
    exchange(device, fds[0], FIRST, SECOND);
    close(fds[0]);
    MUST(waitpid(pid, &how, 0) == pid && WIFEXITED(how) && WEXITSTATUS(how) == 0);
}
