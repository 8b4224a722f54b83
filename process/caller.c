#include "process/caller.h"

#include "base/hash.h"

#include <assert.h>
#include <string.h>

/* The length of the part of peer that names the caller. */
static size_t name_bytes(const char *peer)
{
    static const char *const LOCAL[] = {"ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D", "unix:"};
    for (size_t i = 0; i < sizeof LOCAL / sizeof *LOCAL; i++)
        if (strncmp(peer, LOCAL[i], strlen(LOCAL[i])) == 0)
            return strlen(peer);
    const char *port = strrchr(peer, ':');
    return port ? (size_t)(port - peer) : strlen(peer);
}

uint64_t caller_of_peer(const char *peer)
{
    static const struct hash_key KEY = {{0}}; /* a peer does not choose its address */
    assert(peer && name_bytes(peer) <= strlen(peer));
    return hash128_of(&KEY, peer, name_bytes(peer)).lo;
}
