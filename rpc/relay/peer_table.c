#include "rpc/relay/peer_table.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 64u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table */
static struct rpc_peer **peers;                          /* [n_room], by descriptor */
static size_t n_room;

static bool make_room(size_t n_wanted)
{
    size_t n = n_room ? n_room : FIRST_ROOM;
    while (n < n_wanted)
        n *= 2;
    if (n == n_room)
        return true;
    struct rpc_peer **grown = realloc(peers, n * sizeof *grown);
    if (!grown)
        return false;
    memset(grown + n_room, 0, (n - n_room) * sizeof *grown);
    peers = grown;
    n_room = n;
    return true;
}

enum status peer_table_set(int fd, const struct rpc_peer *peer)
{
    assert(fd >= 0);
    size_t index = (size_t)fd;
    pthread_mutex_lock(&lock);
    if (make_room(index + 1) && !peers[index])
        peers[index] = calloc(1, sizeof *peers[index]);
    bool has_room = index < n_room && peers[index];
    if (has_room)
        *peers[index] = *peer;
    pthread_mutex_unlock(&lock);
    return has_room ? STATUS_OK : STATUS_NO_MEMORY;
}

/* The N of "fd:N"; SIZE_MAX: another format. */
static size_t descriptor_of(const char *core_peer)
{
    static const char PREFIX[] = "fd:";
    if (strncmp(core_peer, PREFIX, sizeof PREFIX - 1) != 0)
        return SIZE_MAX;
    size_t fd = 0;
    const char *digit = core_peer + sizeof PREFIX - 1;
    for (; *digit >= '0' && *digit <= '9' && fd < INT32_MAX; digit++)
        fd = fd * 10 + (size_t)(*digit - '0');
    return *digit == '\0' && digit != core_peer + sizeof PREFIX - 1 ? fd : SIZE_MAX;
}

bool peer_table_find(const char *core_peer, struct rpc_peer *peer_out)
{
    size_t fd = descriptor_of(core_peer);
    pthread_mutex_lock(&lock);
    bool is_known = fd < n_room && peers[fd];
    if (is_known)
        *peer_out = *peers[fd];
    pthread_mutex_unlock(&lock);
    return is_known;
}
