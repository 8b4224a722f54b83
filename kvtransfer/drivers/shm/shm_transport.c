#include "kvtransfer/drivers/shm/shm_transport.h"

#include "base/clock.h"
#include "base/wake.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROUND_BYTES = 1 << 20, NAME_MAX_BYTES = 64 };

struct pool_key {
    uint32_t pid;
    uint32_t fd;
};

struct shm_peer {
    struct transport_peer base;
    int fd; /* the owner's pool, opened for reading; -1: an admitted reader has none */
    uint64_t pool_bytes;
};

struct shm_transport {
    struct local_transport local;
    int pool_fd; /* -1: of one that only reads */
    void *pool;
    size_t pool_bytes;
};

static struct shm_transport *shm_of(const struct transport *transport)
{
    return (struct shm_transport *)transport; /* local is its first member */
}

static struct shm_peer *peer_of(struct transport_peer *peer)
{
    return (struct shm_peer *)peer; /* base is its first member */
}

/* ---- the pool as a file ---- */

static void name_of(uint64_t incarnation, char name_out[NAME_MAX_BYTES])
{
    snprintf(name_out, NAME_MAX_BYTES, "kvferry-%016" PRIx64, incarnation);
}

/* Whether the path leads to the pool of that incarnation, by the name that the kernel shows. */
static bool is_pool(const char *path, uint64_t incarnation)
{
    char name[NAME_MAX_BYTES], wanted[2 * NAME_MAX_BYTES], found[2 * NAME_MAX_BYTES];
    name_of(incarnation, name);
    int n = snprintf(wanted, sizeof wanted, "/memfd:%s (deleted)", name);
    assert(n > 0 && (size_t)n < sizeof wanted);
    return readlink(path, found, sizeof found) == n && memcmp(found, wanted, (size_t)n) == 0;
}

/* -1: it is none, or no more. */
static int open_pool(const struct pool_key *key, uint64_t incarnation, uint64_t *bytes_out)
{
    char path[NAME_MAX_BYTES];
    struct stat stat;
    snprintf(path, sizeof path, "/proc/%" PRIu32 "/fd/%" PRIu32, key->pid, key->fd);
    if (!is_pool(path, incarnation))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return -1;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd); /* it may be another by now */
    if (is_pool(path, incarnation) && fstat(fd, &stat) == 0 && stat.st_uid == geteuid()) {
        *bytes_out = (uint64_t)stat.st_size;
        return fd;
    }
    close(fd);
    return -1;
}

static enum status no_memory(size_t bytes, struct error *error)
{
    return error_set(error, STATUS_UNSUPPORTED, "no %zu bytes of shared memory for the pool: %m",
                     bytes);
}

static enum status create_pool(struct shm_transport *transport, size_t bytes, struct error *error)
{
    char name[NAME_MAX_BYTES];
    assert(bytes > 0 && transport->pool_fd < 0);
    name_of(transport->local.incarnation, name);
    transport->pool_fd = memfd_create(name, MFD_CLOEXEC);
    if (transport->pool_fd < 0 || bytes > INT64_MAX ||
        ftruncate(transport->pool_fd, (off_t)bytes) != 0)
        return no_memory(bytes, error);
    void *pool = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, transport->pool_fd, 0);
    if (pool == MAP_FAILED)
        return no_memory(bytes, error);
    transport->pool = pool;
    transport->pool_bytes = bytes;
    return STATUS_OK;
}

/* ---- reading ---- */

static enum status read_piece(const struct shm_peer *peer, const struct piece *piece)
{
    /* The check also keeps the offset from overflowing. A file that grows later is not read beyond its first size. */
    assert(peer->fd >= 0 && piece->bytes > 0);
    if (piece->bytes > peer->pool_bytes || piece->remote_offset > peer->pool_bytes - piece->bytes)
        return STATUS_NOT_HELD;
    for (uint32_t done = 0; done < piece->bytes;) {
        ssize_t n = pread(peer->fd, piece->target + done, piece->bytes - done,
                          (off_t)(piece->remote_offset + done));
        if (n == 0)
            return STATUS_NOT_HELD; /* it has become shorter */
        if (n < 0 && errno != EINTR)
            return STATUS_PEER_LOST;
        if (n > 0)
            done += (uint32_t)n;
    }
    return STATUS_OK;
}

static unsigned read_waiting(struct shm_transport *transport)
{
    unsigned work = 0;
    for (uint64_t bytes = 0; bytes < ROUND_BYTES; work++) {
        struct get *get = get_list_take(&transport->local.waiting);
        if (!get)
            break;
        assert(get->state == GET_OUT);
        bytes += get->piece.bytes;
        get_table_end(&transport->local.gets, get, read_piece(peer_of(get->peer), &get->piece));
    }
    return work;
}

static void end_waiting(struct shm_transport *transport, const struct transport_peer *peer)
{
    struct get_list waiting = transport->local.waiting;
    transport->local.waiting = (struct get_list){0};
    for (struct get *get = get_list_take(&waiting); get; get = get_list_take(&waiting)) {
        if (get->peer == peer)
            get_table_end(&transport->local.gets, get, STATUS_PEER_LOST);
        else
            get_list_append(&transport->local.waiting, get);
    }
}

/* ---- peers ---- */

static enum status create_peer(struct shm_transport *transport, uint64_t incarnation, int fd,
                               uint64_t pool_bytes, struct transport_peer **peer_out)
{
    TRY(peer_list_add(&transport->local.peers, &transport->local.base, incarnation,
                      sizeof(struct shm_peer), peer_out));
    peer_of(*peer_out)->fd = fd;
    peer_of(*peer_out)->pool_bytes = pool_bytes;
    return STATUS_OK;
}

static void let_go(struct shm_peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
}

static enum status shm_connect(struct transport *base, const struct transport_address *address,
                               struct transport_peer **peer_out)
{
    struct shm_transport *transport = shm_of(base);
    struct pool_key key;
    uint64_t bytes;
    if (address->worker_bytes != 0 || address->pool_key_bytes != sizeof key)
        return STATUS_CORRUPT;
    if (transport->local.peers.n == transport->local.peers.n_max)
        return STATUS_QUEUE_FULL;
    memcpy(&key, address->pool_key, sizeof key);
    int fd = open_pool(&key, address->incarnation, &bytes);
    if (fd < 0)
        return STATUS_PEER_LOST;
    enum status status = create_peer(transport, address->incarnation, fd, bytes, peer_out);
    if (status != STATUS_OK)
        close(fd);
    return status;
}

/* Nobody asks: readers take what they want. */
static enum status shm_admit(struct transport *base, const struct transport_address *address,
                             struct transport_peer **peer_out)
{
    TRY(create_peer(shm_of(base), address->incarnation, -1, 0, peer_out));
    (*peer_out)->is_admitted = true;
    return STATUS_OK;
}

/* A callback may close peers and get, so the search begins anew after each. */
static unsigned end_closing(struct shm_transport *transport)
{
    unsigned work = 0;
    while (transport->local.peers.any_closing) {
        struct transport_peer *peer = transport->local.peers.first;
        while (peer && !peer->is_closing)
            peer = peer->next;
        if (!peer) {
            transport->local.peers.any_closing = false;
            break;
        }
        end_waiting(transport, peer);
        get_table_report(&transport->local.gets);
        let_go(peer_of(peer));
        peer_list_end(&transport->local.peers, peer);
        work++;
    }
    return work;
}

/* ---- the rest of transport_ops ---- */

static void shm_address(const struct transport *base, struct transport_address *address_out)
{
    const struct shm_transport *transport = shm_of(base);
    local_address(base, address_out);
    if (transport->pool_fd < 0)
        return;
    const struct pool_key key = {.pid = (uint32_t)getpid(), .fd = (uint32_t)transport->pool_fd};
    memcpy(address_out->pool_key, &key, sizeof key);
    address_out->pool_key_bytes = sizeof key;
    static_assert(sizeof key <= sizeof address_out->pool_key, "it crosses in Describe");
}

static unsigned shm_progress(struct transport *base, uint64_t now_ns)
{
    struct shm_transport *transport = shm_of(base);
    (void)now_ns;
    unsigned work = wake_take(transport->local.wake_fd);
    work += read_waiting(transport);
    work += get_table_report(&transport->local.gets);
    return work + end_closing(transport);
}

static void shm_wait(struct transport *base, uint64_t until_ns)
{
    struct shm_transport *transport = shm_of(base);
    uint64_t now_ns = clock_now_ns();
    if (until_ns <= now_ns || transport->local.waiting.first || transport->local.peers.any_closing)
        return;
    struct pollfd wake = {.fd = transport->local.wake_fd, .events = POLLIN};
    (void)poll(&wake, 1, clock_poll_ms(now_ns, until_ns));
}

static void shm_close(struct transport *base)
{
    struct shm_transport *transport = shm_of(base);
    while (transport->local.peers.first) {
        let_go(peer_of(transport->local.peers.first));
        peer_list_remove(&transport->local.peers, transport->local.peers.first);
    }
    if (transport->pool)
        munmap(transport->pool, transport->pool_bytes);
    if (transport->pool_fd >= 0)
        close(transport->pool_fd);
    local_transport_destroy(&transport->local);
}

static const struct transport_ops SHM_OPS = {
    .name = "shm-read",
    .close = shm_close,
    .address = shm_address,
    .connect = shm_connect,
    .admit = shm_admit,
    .get = local_get,
    .peer_close = local_peer_close,
    .progress = shm_progress,
    .wait = shm_wait,
    .wake = local_wake,
};

enum status shm_transport_open(const struct shm_options *options, struct transport **transport_out,
                               struct error *error)
{
    struct local_transport *local;
    TRY(local_transport_create(&SHM_OPS, &options->local, sizeof(struct shm_transport), &local,
                               error));
    struct shm_transport *transport = shm_of(&local->base);
    transport->pool_fd = -1;
    enum status status = options->pool_bytes ? create_pool(transport, options->pool_bytes, error)
                                             : STATUS_OK;
    if (status != STATUS_OK) {
        shm_close(&local->base);
        return status;
    }
    *transport_out = &local->base;
    return STATUS_OK;
}

void *shm_transport_pool(const struct transport *transport)
{
    return shm_of(transport)->pool;
}
