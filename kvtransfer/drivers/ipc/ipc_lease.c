#include "kvtransfer/drivers/ipc/ipc_lease.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "kvtransfer/transport/socket_owner.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 128, ROUND_ACCEPTS = 16 };

#define SOCKET_NAME "ipc"
#define DEAF_NS     (100 * NS_PER_MS)

static bool is_later(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* ---- the owner's side ---- */

enum status ipc_door_open(struct ipc_door *door, uint64_t incarnation, uint32_t readers_max,
                          struct error *error)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    assert(readers_max > 0 && incarnation != 0);
    *door = (struct ipc_door){
        .listener = -1, .incarnation = incarnation, .readers_max = readers_max};
    door->readers = calloc(readers_max, sizeof *door->readers);
    if (!door->readers)
        return STATUS_NO_MEMORY;
    TRY(shm_folder_open(&door->folder, error));
    int n = snprintf(door->path, sizeof door->path, "%s/" SOCKET_NAME, door->folder.path);
    assert(n > 0 && (size_t)n < sizeof door->path);
    memcpy(place.sun_path, door->path, (size_t)n + 1);
    door->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (door->listener < 0 ||
        bind(door->listener, (const struct sockaddr *)(const void *)&place, sizeof place) != 0 ||
        listen(door->listener, BACKLOG) != 0)
        return error_set(error, STATUS_IO_FAILED, "no socket at %s: %m", door->path);
    return STATUS_OK;
}

/* False: the other end is not a process of this user, or no place is free. */
static bool let_in(struct ipc_door *door, int fd)
{
    if (door->n_readers == door->readers_max || !socket_owner_is_us(fd))
        return false;
    ssize_t n = send(fd, &door->incarnation, sizeof door->incarnation, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n != (ssize_t)sizeof door->incarnation)
        return false;
    door->readers[door->n_readers++] = fd;
    return true;
}

static unsigned accept_readers(struct ipc_door *door, uint64_t now_ns)
{
    unsigned work = 0;
    for (int i = 0; i < ROUND_ACCEPTS; i++, work++) {
        int fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && !is_later() && errno != ECONNABORTED) {
            log_warn("no descriptor for a reader of the pool: %s", strerror(errno));
            door->deaf_until_ns = now_ns + DEAF_NS;
        }
        if (fd < 0)
            break;
        if (!let_in(door, fd))
            close(fd);
    }
    return work;
}

/* Anything that arrives from a reader means that it has unmapped the pool. */
static unsigned forget_gone(struct ipc_door *door)
{
    unsigned work = 0;
    for (uint32_t i = 0; i < door->n_readers;) {
        char said;
        ssize_t n = recv(door->readers[i], &said, sizeof said, MSG_DONTWAIT);
        if (n < 0 && is_later()) {
            i++;
            continue;
        }
        close(door->readers[i]);
        door->readers[i] = door->readers[--door->n_readers];
        work++;
    }
    return work;
}

unsigned ipc_door_progress(struct ipc_door *door, uint64_t now_ns)
{
    unsigned work = forget_gone(door);
    assert(door->n_readers <= door->readers_max);
    return door->listener >= 0 && now_ns >= door->deaf_until_ns
               ? work + accept_readers(door, now_ns)
               : work;
}

uint32_t ipc_door_fds(const struct ipc_door *door, uint64_t now_ns, struct pollfd *fds_out)
{
    uint32_t n = 0;
    if (door->listener >= 0 && now_ns >= door->deaf_until_ns)
        fds_out[n++] = (struct pollfd){.fd = door->listener, .events = POLLIN};
    for (uint32_t i = 0; i < door->n_readers; i++)
        fds_out[n++] = (struct pollfd){.fd = door->readers[i], .events = POLLIN};
    return n;
}

/* Those who were let in. */
static void wait_for_readers(struct ipc_door *door, uint64_t until_ns)
{
    for (uint32_t i = 0; i < door->n_readers; i++)
        (void)shutdown(door->readers[i], SHUT_WR);
    while (door->n_readers > 0) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= until_ns)
            break;
        struct pollfd first = {.fd = door->readers[0], .events = POLLIN};
        (void)poll(&first, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1);
        (void)forget_gone(door);
    }
}

bool ipc_door_close(struct ipc_door *door, uint64_t limit_ns)
{
    if (!door->readers)
        return true;
    if (door->listener >= 0)
        close(door->listener); /* a reader that waits there has nothing mapped */
    wait_for_readers(door, clock_now_ns() + limit_ns);
    bool is_alone = door->n_readers == 0;
    while (door->n_readers > 0)
        close(door->readers[--door->n_readers]);
    shm_folder_close(&door->folder);
    free(door->readers);
    *door = (struct ipc_door){.listener = -1};
    return is_alone;
}

/* ---- the reader's side ---- */

int ipc_lease_ask(const struct transport_address *address)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    if (address->worker_bytes >= sizeof place.sun_path ||
        !shm_folder_has((const char *)address->worker, address->worker_bytes))
        return -1;
    memcpy(place.sun_path, address->worker, address->worker_bytes);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)(const void *)&place, sizeof place) == 0 &&
        socket_owner_is_us(fd))
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

enum status ipc_lease_hear(int fd, uint64_t incarnation)
{
    uint64_t said;
    ssize_t n = recv(fd, &said, sizeof said, MSG_DONTWAIT);
    if (n < 0 && is_later())
        return STATUS_NOT_READY;
    return n == (ssize_t)sizeof said && said == incarnation ? STATUS_OK : STATUS_PEER_LOST;
}

enum status ipc_lease_check(int fd)
{
    char said;
    ssize_t n = recv(fd, &said, sizeof said, MSG_DONTWAIT);
    return n < 0 && is_later() ? STATUS_OK : STATUS_PEER_LOST;
}
