#include "ctx_worker/caller.h"

#include "base/hash.h"

#include <assert.h>
#include <string.h>

/* Those of peer that name the caller. */
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
    static const struct hash_key KEY = {{0}}; /* peers do not choose their names */
    assert(peer && name_bytes(peer) <= strlen(peer));
    return hash128_of(&KEY, peer, name_bytes(peer)).lo;
}
