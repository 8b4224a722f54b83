/*
 * device - where the bytes of a worker are (host or GPU), and in what order work on them runs.
 *
 *     compute   for the engine thread    forward passes, digests of their output
 *     copy      for the transfer thread  blocks that are sent and received
 *
 *     engine thread                          transfer thread
 *     kernels ... record(compute) -> ticket ---> after(copy, ticket), read, record(copy) -> ticket
 *                                                poll(ticket): OK, NOT_READY or DEVICE_LOST
 *
 * A queue runs its work in order. Two queues run concurrently; only after() makes work of one wait for work of the
 * other. A ticket is a position on the timeline of a queue: {queue, number of its records}. A ticket exists only after
 * its record, so nothing can wait for a record that is not made yet. A poll compares the ticket with the device's
 * progress.
 *
 * Only kernels and read, write and digest access the memory of a device: for all other code its addresses are just
 * numbers. All of it is allocated at start, and counted by its use.
 *
 * Kernels that a device itself runs (an image, loaded once) are launched on the compute queue of the device that is
 * bound to the thread: the functions of kernels/ have no argument for it. The kernels of the host are plain functions
 * and do not use this.
 *
 * Errors are sticky. Functions that enqueue return nothing; a device that failed is lost, logs that once, and answers
 * DEVICE_LOST to every later poll. A lost device is never used again: the process ends.
 *
 * Thread: open, close, allocate, free on main; a queue's functions on the thread that owns the queue; tickets may be
 * passed to any thread; poll, is_lost, bytes from any.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct thread_pool;

enum device_queue { DEVICE_COMPUTE, DEVICE_COPY, DEVICE_QUEUES };

/* The use of memory. */
enum device_use {
    DEVICE_KV,          /* the block pool */
    DEVICE_ACTIVATIONS, /* of one step */
    DEVICE_STAGING,     /* inputs of a step, written by the host */
    DEVICE_WEIGHTS,     /* weights that are not read in the host's memory */
    DEVICE_WORKSPACE,   /* for kernels: constants of a layer, partial results */
    DEVICE_USES
};
const char *device_use_name(enum device_use use); /* "kv" */

/* All zeros: no record, always done. */
struct device_ticket {
    enum device_queue queue;
    uint64_t sequence; /* the queue's first record is 1 */
};

/* name "cpu": the host, whose queues run their work at once; "cuda:N": a GPU; "auto": a GPU if there is one that is new
 * enough for the kernels, else the host, and the log says why. INVALID_ARGUMENT: an unknown name. NOT_FOUND,
 * UNSUPPORTED, NO_MEMORY, DEVICE_LOST. All with a sentence. */
MUST_CHECK enum status device_open(const char *name, struct device **device_out,
                                   struct error *error);
/* Free its memory first. NULL is fine. */
void device_close(struct device *device);
const char *device_name(const struct device *device);
/* Whether its kernels read the host's memory in place, without copies. */
bool device_reads_host(const struct device *device);
/* (any) */
bool device_is_lost(const struct device *device);
/* (any) Whether it captures steps as graphs. Then steps are padded to a few shapes, because a replay saves more
 * than the padding costs. */
bool device_wants_static_steps(const struct device *device);

/* The properties by which kernels choose their shapes. */
struct device_traits {
    uint32_t architecture;     /* 80, 90, 100; 0: a host */
    uint32_t n_processors;     /* multiprocessors */
    uint32_t shared_bytes_max; /* of one CTA, on request */
    uint64_t memory_bytes;     /* in all */
};
struct device_traits device_get_traits(const struct device *device);

struct device_memory {
    uint8_t *base; /* NULL: none */
    size_t bytes;
    enum device_use use;
    bool is_wrapped; /* another owner frees it */
};
/* Only at start. The memory begins at a multiple of 256, on a host at a page; the content is zero. NO_MEMORY,
 * DEVICE_LOST. */
MUST_CHECK enum status device_allocate(struct device *device, enum device_use use, size_t bytes,
                                       struct device_memory *memory_out);
/* Lets the device use memory of another owner, such as a transport, until free; the owner keeps it that
 * long. UNSUPPORTED: this device cannot access it. */
MUST_CHECK enum status device_wrap(struct device *device, enum device_use use, void *base,
                                   size_t bytes, struct device_memory *memory_out);
/* At start, for memory without content: touches all pages. The host's kernel allocates pages at their first write, and
 * ends the process if it has none left: without this function, that would happen during a request. threads may be
 * NULL. */
void device_touch(struct device *device, const struct device_memory *memory,
                  struct thread_pool *threads);
/* No enqueued work may use it any more. Sets memory to zeros; a zeroed one is fine. */
void device_free(struct device *device, struct device_memory *memory);
/* (any) Bytes that are allocated or wrapped for that use. */
uint64_t device_bytes(const struct device *device, enum device_use use);
/* (any) For all uses. */
uint64_t device_bytes_taken(const struct device *device);

/* How much of its own memory no process uses. UINT64_MAX: it has none of its own, or it is not known; 0 also if it
 * is lost. On main. */
uint64_t device_free_bytes(struct device *device);

/* For an allocation that failed, or that would fail: NO_MEMORY, with a sentence that has the bytes (0: not known), what
 * they are for ("KV blocks") and the free memory. DEVICE_LOST with another sentence, if the device is lost. */
MUST_CHECK enum status device_no_memory(struct device *device, const char *what, uint64_t bytes,
                                        struct error *error);

/* ---- order ---- */

struct device_ticket device_record(struct device *device, enum device_queue queue);
/* Work that is enqueued on queue from now on runs after ticket's record is done. */
void device_after(struct device *device, enum device_queue queue, struct device_ticket ticket);
/* (any) NOT_READY: not done yet. The device is also lost if a polled queue makes no progress for two limits of
 * device_wait. */
MUST_CHECK enum status device_poll(struct device *device, struct device_ticket ticket);
/* Polls until the result is OK or DEVICE_LOST; a device that takes longer than its limit is lost. */
MUST_CHECK enum status device_wait(struct device *device, struct device_ticket ticket);
/* Sets the limit, at least DEVICE_WAIT_LIMIT_NS, which is the default. On main. */
void device_set_wait_limit(struct device *device, uint64_t limit_ns);

#define DEVICE_WAIT_LIMIT_NS 30000000000ull

/* ---- bytes ---- */

/* The size of a view of a read or write. A write to the base of DEVICE_STAGING memory may be as long as that memory. */
#define DEVICE_VIEW_BYTES_MAX (4u << 20)
#define DEVICE_PIECE_BYTES    (256u << 10)

/* The number of views for the copy queue at a time, of up to DEVICE_PIECE_BYTES each; 0: no limit. */
uint32_t device_n_views(const struct device *device);
/* Where the host reads bytes of the device (on the host the bytes themselves). The view is valid from when a ticket
 * recorded after this is done, until read_end. QUEUE_FULL: no view is free, nothing was enqueued. Copies cannot keep
 * the compute queue from its results: its owner gets QUEUE_FULL only while it has views itself, or writes in progress.
 * DEVICE_LOST. */
MUST_CHECK enum status device_read(struct device *device, enum device_queue queue,
                                   const uint8_t *source, size_t bytes, const uint8_t **view_out);
/* Ends a read that is done, or any read of a lost device. */
void device_read_end(struct device *device, const uint8_t *view);

/* Where the host puts the bytes for target (on the host target itself), until exactly one of write or write_drop.
 * Aligned as target, up to 64 bytes. QUEUE_FULL, DEVICE_LOST as read. */
MUST_CHECK enum status device_write_begin(struct device *device, uint8_t *target, size_t bytes,
                                          uint8_t **view_out);
/* The target has the view's bytes when a ticket recorded after this is done. */
void device_write(struct device *device, enum device_queue queue, uint8_t *target, uint8_t *view,
                  size_t bytes);
void device_write_drop(struct device *device, uint8_t *view);

/* Copies from one address of the device to another; the source may be another process's memory (device_import). It
 * is done when a ticket recorded after this is done. Devices without export need not have it. */
void device_copy(struct device *device, enum device_queue queue, uint8_t *target,
                 const uint8_t *source, size_t bytes);

/* Computes CRC32C of bytes. digest_out is written before a ticket recorded after this is done, and must exist
 * until then. */
void device_digest(struct device *device, enum device_queue queue, const uint8_t *bytes,
                   size_t n_bytes, uint32_t *digest_out);

/* ---- memory of another process of this machine, with a device of its own ---- */

#define DEVICE_HANDLE_BYTES 64u

/* The handle with which another process opens the memory. A process that has it, and may use the device, can read
 * and write the memory. */
struct device_handle {
    uint8_t bytes[DEVICE_HANDLE_BYTES];
};

/* Exported memory is a multiple of this: a driver may place smaller memory into a piece with other data, and would
 * export the whole piece. */
#define DEVICE_EXPORT_BYTES (2ull << 20)

/* Whether other processes can open its memory. */
bool device_can_export(const struct device *device);
/* Exports allocated memory. Do not free it while another process has it open. UNSUPPORTED with a sentence. DEVICE_LOST. */
MUST_CHECK enum status device_export(struct device *device, const struct device_memory *memory,
                                     struct device_handle *handle_out, struct error *error);

/* Memory that device_copy may only read; the process that opened it closes it. Its length comes from this process's
 * device, not from the sender of the handle. */
struct device_mapping {
    const uint8_t *base; /* NULL: none */
    size_t bytes;
};
/* (any thread) UNSUPPORTED with a sentence: the handle cannot be opened here, for any reason. DEVICE_LOST. */
MUST_CHECK enum status device_import(struct device *device, const struct device_handle *handle,
                                     struct device_mapping *mapping_out, struct error *error);
/* (any thread) All copies out of it must be done. Sets it to zeros; a zeroed one is fine. */
void device_import_close(struct device *device, struct device_mapping *mapping);

/* ---- kernels ---- */

/* The code for a device: modules in its own format, and the names of the kernels in them. Borrowed until
 * close. */
struct device_module {
    const char *name;
    const void *image; /* NULL: not part of this build */
    size_t bytes;
};
struct device_kernel {
    const char *name;
    uint32_t module;          /* index into modules */
    uint32_t threads;         /* of a CTA, at most */
    uint32_t parameter_bytes; /* of its one argument, a struct */
};
struct device_image {
    const struct device_module *modules;
    const struct device_kernel *kernels;
    uint32_t n_modules, n_kernels;
    uint32_t
        shared_bytes_max; /* of a CTA; a launch may ask for more if the device's traits allow it */
};
/* Loads the image, once, at start. UNSUPPORTED: this build has no kernels for this device, it runs none, or its CTAs
 * are too small for them. DEVICE_LOST. */
MUST_CHECK enum status device_load(struct device *device, const struct device_image *image,
                                   struct error *error);

#define DEVICE_GRID_MAX 65535u

struct device_shape {
    uint32_t grid[3];      /* CTAs; each at least 1, the second and third at most DEVICE_GRID_MAX */
    uint32_t threads;      /* of a CTA */
    uint32_t shared_bytes; /* dynamic */
};
/* Launches on the compute queue. kernel: an index into the loaded image. parameters are copied; addresses in them are
 * device addresses. */
void device_launch(struct device *device, uint32_t kernel, const struct device_shape *shape,
                   const void *parameters, size_t bytes);

/* ---- graphs: recorded launches that are enqueued together again ---- */

struct device_graph;

bool device_captures(const struct device *device);
/* At start, on a device that captures. Launches from now on until end are recorded and not run; nothing else may be
 * enqueued on the compute queue. */
void device_capture_begin(struct device *device);
/* The graph's device memory counts as DEVICE_WORKSPACE, as far as it is known. NO_MEMORY, DEVICE_LOST: no graph was
 * made. */
MUST_CHECK enum status device_capture_end(struct device *device, struct device_graph **graph_out);
/* Enqueues the captured launches on the compute queue with their recorded parameters; memory that these point to is
 * read when they run. */
void device_replay(struct device *device, struct device_graph *graph);
/* No replay of it may be in progress. NULL is fine. */
void device_graph_destroy(struct device *device, struct device_graph *graph);

/* ---- matrix products with the vendor's library: faster than our kernels, but the library chooses the order of sums
 * ---- */

enum device_number { DEVICE_F32, DEVICE_F16, DEVICE_BF16 };

/* y[t][o] = sum over i of w[o][i] x[t][i], added to y if it accumulates. Strides are in elements from token to token. */
struct device_product {
    const void *w, *x; /* of operand: [n_out][n_in], [n_tokens][n_in] */
    void *y;           /* of result: [n_tokens][n_out] */
    uint64_t x_stride, y_stride;
    uint32_t n_tokens, n_in, n_out;
    enum device_number operand, result;
    bool accumulates;
};

#define DEVICE_PRODUCTS_BYTES ((size_t)32 << 20) /* of a workspace: NVIDIA's advice from sm_90 on */

/* At start: allocates a workspace of DEVICE_WORKSPACE. UNSUPPORTED: no such library. NO_MEMORY, DEVICE_LOST. With a
 * sentence. */
MUST_CHECK enum status device_open_products(struct device *device, struct error *error);
/* No enqueued work may be in progress. Fine if not open. */
void device_close_products(struct device *device);
/* At start: plans such products with this number of tokens or fewer. Computes it once, from zeros. UNSUPPORTED,
 * DEVICE_LOST. */
MUST_CHECK enum status device_plan_product(struct device *device,
                                           const struct device_product *product,
                                           struct error *error);
/* Enqueues the product on the compute queue, or in a capture. False: no plan fits, and nothing was enqueued; or the
 * device is lost. After a failure of the library the device is lost. */
bool device_multiply(struct device *device, const struct device_product *product);

/* From now on the calls of kernels/ in this thread run on device; NULL: on none. A host need not be
 * bound. */
void device_bind(struct device *device);
/* NULL: none is bound. */
struct device *device_bound(void);
