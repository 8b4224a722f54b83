/*
 * driver_pair - two real processes over one driver: the test is the reader, a child of it owns the
 * blocks.
 *
 * The child is forked before any UCX call (U29); it runs a kv_sender on a transfer thread and obeys
 * orders from a socket. The test runs a kv_receiver on a transfer thread and plays the engine. Every
 * wait has a bound, WAIT_NS.
 */
#pragma once

#include "kvcache/block_pool.h"
#include "kvtransfer/driver.h"
#include "kvtransfer/transfer_thread.h"
#include "tests/kvtransfer/support/drivers.h"

#include <semaphore.h>
#include <sys/types.h>

#define WAIT_NS (20 * 1000000000ull)

struct pair_options {
    enum kv_driver driver;
    size_t block_bytes;
    uint32_t n_blocks;
    uint32_t window_max;
    uint32_t peers_max; /* 0: 4 */
    uint32_t reads_max; /* the owner's; 0: 512 */
    uint64_t quiet_limit_ns;
    uint64_t owner_incarnation;
    uint64_t
        device_seed; /* both sides on a fault_device of it; 0: on the host, but over cuda-ipc */
};

struct owner {
    pid_t pid;
    int socket;
    struct transport_address address;
};

struct reader {
    struct device *device;
    struct device_memory memory; /* of the pool, over cuda-ipc */
    struct transport *transport;
    struct kv_receiver *receiver;
    struct block_pool *pool;
    struct transfer_thread *thread;
    struct transport_address address;
    sem_t happened;
    uint32_t n_blocks; /* of the last event */
    uint64_t bytes;
};

struct pair {
    struct pair_options options;
    struct owner owner;
    struct reader reader;
};

/* Fork order: every owner of a test first, then reader_start. */
void owner_start(struct owner *owner, const struct pair_options *options);
void owner_admit(struct owner *owner, const struct transport_address *reader);
void owner_open(struct owner *owner, const struct transfer_id *id, uint64_t reader_incarnation);
void owner_publish(struct owner *owner, const struct transfer_id *id, uint32_t first, uint32_t n,
                   uint32_t first_block);
/* Returns the bytes sent once the owner has said QUIET. */
uint64_t owner_close(struct owner *owner, const struct transfer_id *id);
void owner_kill(struct owner *owner, int signal);
/* Ends it in good order and checks that it did. */
void owner_stop(struct owner *owner);
/* Descriptors and resident KiB of the owner. */
void owner_usage(struct owner *owner, uint32_t *n_descriptors, uint64_t *resident_kib);
struct port_figures owner_port(struct owner *owner);
/* And connections that its port has refused. */
uint64_t owner_bad_messages(struct owner *owner);

void reader_start(struct reader *reader, const struct pair_options *options, uint64_t incarnation);
void reader_stop(struct reader *reader);
/* Waits for an event of that kind; others on the way are fine. Its status. */
enum status reader_wait(struct reader *reader, enum kv_receiver_event_kind kind);
void reader_wait_arrived(struct reader *reader, uint32_t n_blocks);
void reader_fetch(struct reader *reader, const struct transfer_id *id, uint32_t first, uint32_t n,
                  uint32_t first_remote, uint32_t first_local, const uint32_t *digests);
/* The local block holds what the owner's block holds from the beginning. */
void reader_check_block(struct reader *reader, uint32_t local, uint32_t remote);
/* What becomes of one block, read from an owner that describes itself so; its bytes are checked where it comes. The peer is dropped. */
enum status reader_read_block(struct reader *reader, const struct transport_address *address,
                              uint32_t block);

/* What the owner writes into its block at start. */
void fill_block(uint8_t *block, size_t block_bytes, uint32_t id);

void pair_start(struct pair *pair, const struct pair_options *options);
void pair_stop(struct pair *pair);
struct transfer_id transfer_of(uint64_t number);
uint32_t count_descriptors(void);
uint64_t resident_kib(void);
