/* peer - the address and identity of the client of a connection. */
#pragma once

#include <stdbool.h>

struct rpc_peer {
    char address[64];   /* "ipv4:127.0.0.1:4711", "ipv6:[::1]:4711", "unix:" */
    char identity[256]; /* the verified URI of its certificate; "": no certificate */
    bool is_encrypted;
};
