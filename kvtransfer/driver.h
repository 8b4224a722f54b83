/*
 * driver - the drivers by name; opens the transport of each.
 *
 *     am-tcp     UCX, over TCP, in clear (ucx_transport.h)
 *     shm-read   one host, one user: reads the owner's pool through shared memory (shm_transport.h)
 *     unix       our own stream, one host, one user (stream_transport.h)
 *     tls        our own stream over TCP, TLS 1.3
 *     cuda-ipc   one host, one user: maps the owner's pool, in a GPU, and copies on the device (ipc_transport.h)
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvtransfer/transport/transport.h"

#include <stdbool.h>
#include <stddef.h>

/* In the order of the words of the row kv_transport. */
enum kv_driver { KV_DRIVER_AUTO, KV_AM_TCP, KV_SHM_READ, KV_UNIX, KV_TLS, KV_CUDA_IPC };

#define KV_DRIVER_WORDS "auto|am-tcp|shm-read|unix|tls|cuda-ipc"

struct driver_options {
    enum kv_driver driver; /* not AUTO */
    uint64_t incarnation;
    const char *net_devices; /* "eth0", "lo"; NULL or "": all */
    const char *port_range;  /* "20000-20009"; NULL or "": any */
    uint32_t peers_max;      /* connected or admitted, closing ones included */
    uint32_t gets_max;       /* pieces asked for and not arrived, all peers */
    uint32_t reads_max;      /* pieces asked for and not sent, all peers */
    uint32_t pieces_max;     /* of these, of one reader, as its Describe tells it; 0: all */
    size_t pool_bytes;       /* of a worker that is read from; 0 for one that only reads */
    uint32_t unproven_max;   /* unix, tls: connections that have not proved who they are; 0: 64 */
    uint64_t proof_ns;       /* unix, tls: that each has to do so; 0: 2 s */
    struct device *device;   /* cuda-ipc: borrowed; its copy queue is the transport's thread's */
};

const char *driver_name(enum kv_driver driver); /* "am-tcp" */
/* Whoever is on the network can read what it sends. */
bool driver_is_clear(enum kv_driver driver);
/* Whether the driver of that name crosses a network. A worker must then tell its hosts: am-tcp's port lets in connections from
 * them alone, and readers of tls connect to them. */
bool driver_needs_hosts(const char *name);
/* Whether two workers with the driver of that name may reach each other. False: each has one device only, and their versions of UCX
 * describe it in different ways. */
bool driver_may_reach(const char *name, const struct transport_address *ours,
                      const struct transport_address *theirs);

/* Checks the devices and the range of ports as driver_open does. Opens nothing. */
MUST_CHECK enum status driver_check(const struct driver_options *options, struct error *error);
MUST_CHECK enum status driver_open(const struct driver_options *options,
                                   struct transport **transport_out, struct error *error);
/* Memory of pool_bytes that others can read, for block_pool_create_in. It lives until close. NULL: any memory will do. */
void *driver_pool(const struct transport *transport, enum kv_driver driver);
/* The size to allocate for a pool of that many bytes that others read. */
size_t driver_pool_bytes(enum kv_driver driver, size_t bytes);
/* Lets others read the pool. The caller is a worker that is read from; it calls this before it tells its address, and frees the pool
 * after close. UNSUPPORTED: error says why. */
MUST_CHECK enum status driver_lend(struct transport *transport, enum kv_driver driver,
                                   const struct device_memory *pool, struct error *error);
