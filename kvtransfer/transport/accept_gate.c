#include "kvtransfer/transport/accept_gate.h"

#include "kvtransfer/transport/socket_owner.h"

#include <assert.h>
#include <errno.h>
#include <ifaddrs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Connections that one call refuses at most. */
enum { ROUND_REFUSALS = 64 };

struct gated_socket {
    const void *owner; /* NULL: free */
    dev_t device;
    ino_t inode; /* the descriptor may belong to another socket by now */
};

struct permit {
    uint64_t incarnation;
    uint64_t given; /* when, on the table's clock; 0: free */
    struct host_address hosts[HOST_ADDRESSES_MAX];
    uint32_t n_hosts;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct gated_socket sockets[GATED_SOCKETS_MAX];
static atomic_uint n_sockets;
static struct permit permits[PERMITS_MAX];
static uint32_t n_permits; /* places in use, or used once */
static uint64_t clock_of_permits;
static _Atomic uint64_t n_refused;
static _Thread_local const void *opening;

/* ---- tables ---- */

void accept_gate_begin(const void *owner)
{
    assert(owner && !opening); /* this thread makes one UCX worker at a time */
    opening = owner;
}

void accept_gate_end(void)
{
    assert(opening);
    opening = NULL;
}

static bool add_socket(int fd)
{
    struct stat status;
    bool is_added = false;
    if (fstat(fd, &status) != 0)
        return false;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < GATED_SOCKETS_MAX && !is_added; i++) {
        if (sockets[i].owner)
            continue;
        sockets[i] = (struct gated_socket){opening, status.st_dev, status.st_ino};
        atomic_fetch_add(&n_sockets, 1);
        is_added = true;
    }
    pthread_mutex_unlock(&lock);
    return is_added;
}

void accept_gate_close(const void *owner)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < GATED_SOCKETS_MAX; i++) {
        if (sockets[i].owner != owner)
            continue;
        assert(atomic_load(&n_sockets) > 0);
        sockets[i].owner = NULL;
        atomic_fetch_sub(&n_sockets, 1);
    }
    pthread_mutex_unlock(&lock);
}

static bool is_gated(int fd)
{
    struct stat status;
    bool is_found = false;
    if (atomic_load(&n_sockets) == 0 || fstat(fd, &status) != 0)
        return false;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < GATED_SOCKETS_MAX; i++)
        is_found |= sockets[i].owner && sockets[i].inode == status.st_ino &&
                    sockets[i].device == status.st_dev;
    pthread_mutex_unlock(&lock);
    return is_found;
}

/* Finds its own place, a free one, or that of the oldest permit. */
static struct permit *place_for(uint64_t incarnation)
{
    struct permit *oldest = NULL;
    for (uint32_t i = 0; i < n_permits; i++) {
        if (permits[i].given != 0 && permits[i].incarnation == incarnation)
            return &permits[i];
        if (!oldest || permits[i].given < oldest->given)
            oldest = &permits[i];
    }
    assert(n_permits <= PERMITS_MAX);
    bool has_free = oldest && oldest->given == 0;
    return has_free || n_permits == PERMITS_MAX ? oldest : &permits[n_permits++];
}

void accept_gate_permit(uint64_t incarnation, const struct host_address *hosts, uint32_t n_hosts)
{
    if (n_hosts > HOST_ADDRESSES_MAX)
        n_hosts = HOST_ADDRESSES_MAX;
    pthread_mutex_lock(&lock);
    struct permit *permit = place_for(incarnation);
    assert(permit >= permits && permit < permits + PERMITS_MAX);
    *permit = (struct permit){
        .incarnation = incarnation, .given = ++clock_of_permits, .n_hosts = n_hosts};
    memcpy(permit->hosts, hosts, n_hosts * sizeof *hosts);
    pthread_mutex_unlock(&lock);
}

void accept_gate_revoke(uint64_t incarnation)
{
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n_permits; i++)
        if (permits[i].incarnation == incarnation)
            permits[i].given = 0;
    pthread_mutex_unlock(&lock);
}

static bool is_permitted(const struct host_address *host)
{
    bool is_found = false;
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n_permits; i++)
        for (uint32_t h = 0; permits[i].given != 0 && h < permits[i].n_hosts; h++)
            is_found |= host_address_equals(&permits[i].hosts[h], host);
    pthread_mutex_unlock(&lock);
    return is_found;
}

uint64_t accept_gate_refused(void)
{
    return atomic_load(&n_refused);
}

/* ---- who it is ---- */

/* In doubt it is. */
static bool is_this_host(const struct host_address *host)
{
    struct ifaddrs *all;
    if (host_address_is_loopback(host) || getifaddrs(&all) != 0)
        return true;
    bool is_found = false;
    for (const struct ifaddrs *one = all; one && !is_found; one = one->ifa_next) {
        struct host_address own;
        is_found = one->ifa_addr && host_address_from_socket(one->ifa_addr, &own) &&
                   host_address_equals(&own, host);
    }
    freeifaddrs(all);
    return is_found;
}

static bool is_let_in(int fd, const struct sockaddr_storage *theirs)
{
    struct host_address host;
    struct sockaddr_storage ours;
    socklen_t bytes = sizeof ours;
    if (!host_address_from_socket((const struct sockaddr *)(const void *)theirs, &host) ||
        !is_permitted(&host) || getsockname(fd, (struct sockaddr *)(void *)&ours, &bytes) != 0)
        return false;
    return !is_this_host(&host) || socket_owner_is(theirs, &ours, geteuid());
}

/* ---- in place of the C library's functions, whose parameters begin with underscores ----
 * NOLINTBEGIN(readability-inconsistent-declaration-parameter-name) */

static int take(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    return (int)syscall(SYS_accept4, fd, address, bytes, flags);
}

static int take_gated(int fd, struct sockaddr *address, socklen_t *bytes, int flags)
{
    for (int i = 0; i < ROUND_REFUSALS; i++) {
        struct sockaddr_storage theirs = {0};
        socklen_t theirs_bytes = sizeof theirs;
        int taken = take(fd, (struct sockaddr *)(void *)&theirs, &theirs_bytes, flags);
        if (taken < 0)
            return taken;
        if (is_let_in(taken, &theirs)) {
            if (address && bytes) {
                memcpy(address, &theirs, *bytes < theirs_bytes ? *bytes : theirs_bytes);
                *bytes = theirs_bytes;
            }
            return taken;
        }
        close(taken);
        atomic_fetch_add(&n_refused, 1);
    }
    errno = EAGAIN;
    return -1;
}

__attribute__((visibility("default"))) int listen(int fd, int backlog)
{
    if (opening && !add_socket(fd)) {
        errno = ENOBUFS;
        return -1;
    }
    return (int)syscall(SYS_listen, fd, backlog);
}

__attribute__((visibility("default"))) int accept4(int fd, struct sockaddr *address,
                                                   socklen_t *bytes, int flags)
{
    return is_gated(fd) ? take_gated(fd, address, bytes, flags) : take(fd, address, bytes, flags);
}

__attribute__((visibility("default"))) int accept(int fd, struct sockaddr *address,
                                                  socklen_t *bytes)
{
    return accept4(fd, address, bytes, 0);
}
/* NOLINTEND(readability-inconsistent-declaration-parameter-name) */
