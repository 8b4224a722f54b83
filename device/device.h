/*
 * device - where a worker's bytes live, and in what order work on them runs.
 *
 *     compute   the engine thread's    forward passes, digests of what they wrote
 *     copy      the transfer thread's  blocks that leave and arrive
 *
 *     engine thread                          transfer thread
 *     kernels ... record(compute) -> ticket ---> after(copy, ticket), read, record(copy) -> ticket
 *                                                poll(ticket): OK, NOT_READY or DEVICE_LOST
 *
 * A queue runs what it is given in order; two queues run side by side, and only after() puts work of one behind
 * work of the other. A ticket is a place on a queue's timeline: {queue, how many records were made on it}. It cannot be
 * had without the record, so that a wait is never for one that is still to come, and a poll compares it with what the
 * device says is done.
 *
 * Memory of a device is touched by kernels and by read, write and digest, and by nobody else: its addresses are
 * numbers to everybody but the device. All of it is taken at start, and counted by what it is for.
 *
 * Kernels that a device runs itself (an image, loaded once) are launched on its compute queue by what is bound to the
 * thread: kernels/ has no argument for it. The host's kernels are plain functions and know nothing of this.
 *
 * Errors are sticky. What enqueues returns nothing; a device that failed is lost, says so once in the log, and answers
 * DEVICE_LOST to every poll from then on. A lost device is never used again: who owns the process ends it.
 *
 * Thread: open, close, allocate, free on main; a queue's functions on the thread that owns the queue; record's tickets
 * may be handed to any thread; poll, is_lost, bytes from any.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct device;
struct thread_pool;

enum device_queue { DEVICE_COMPUTE, DEVICE_COPY, DEVICE_QUEUES };

/* What memory is for. */
enum device_use {
    DEVICE_KV,          /* the block pool */
    DEVICE_ACTIVATIONS, /* of one step */
    DEVICE_STAGING,     /* what the host lays out for a step */
    DEVICE_WEIGHTS,     /* that are not read where the host has them */
    DEVICE_WORKSPACE, /* what kernels keep for themselves: constants of a layer, partial results */
    DEVICE_USES
};
const char *device_use_name(enum device_use use); /* "kv" */

/* All zero: of nothing, and done. */
struct device_ticket {
    enum device_queue queue;
    uint64_t sequence; /* the queue's first record is 1 */
};

/* name "cpu": the host, where a queue runs what it is given at once; "cuda:N": a GPU; "auto": a GPU if there is one that is
 * not too old for kernels, else the host, and the log says why. INVALID_ARGUMENT: there is no device of such a name.
 * NOT_FOUND, UNSUPPORTED, NO_MEMORY, DEVICE_LOST. All with a sentence. */
MUST_CHECK enum status device_open(const char *name, struct device **device_out,
                                   struct error *error);
/* Its memory has been freed. NULL is fine. */
void device_close(struct device *device);
const char *device_name(const struct device *device);
/* Whether its kernels read the host's memory where it is: nothing need be copied for them. */
bool device_reads_host(const struct device *device);
/* (any) */
bool device_is_lost(const struct device *device);
/* (any) Whether steps of the same few shapes, filled up with rows that nobody wants, are worth more to it than the
 * rows cost: it captures them. */
bool device_wants_static_steps(const struct device *device);

/* What kernels choose their shapes by. */
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
    bool is_wrapped; /* somebody else's */
};
/* At start only. Begins at a multiple of 256, on a host at a page; the content is zero. NO_MEMORY, DEVICE_LOST. */
MUST_CHECK enum status device_allocate(struct device *device, enum device_use use, size_t bytes,
                                       struct device_memory *memory_out);
/* Makes memory of another owner, such as a transport's, the device's until free; the owner keeps it so long.
 * UNSUPPORTED: this device cannot reach it. */
MUST_CHECK enum status device_wrap(struct device *device, enum device_use use, void *base,
                                   size_t bytes, struct device_memory *memory_out);
/* At start, of memory that holds nothing yet: all of it is there. The host's kernel gives pages when they are first
 * written, and ends the process when it has none: without this, in the middle of some request. threads may be NULL. */
void device_touch(struct device *device, const struct device_memory *memory,
                  struct thread_pool *threads);
/* Nothing that was enqueued touches it any more. Zeroes memory; a zeroed one is fine. */
void device_free(struct device *device, struct device_memory *memory);
/* (any) Bytes that are allocated or wrapped for that use. */
uint64_t device_bytes(const struct device *device, enum device_use use);
/* (any) For all uses. */
uint64_t device_bytes_taken(const struct device *device);

/* Of the memory that is its own, what nobody has, neither this process nor another. UINT64_MAX: it has none of its
 * own, or does not say; 0 also of a lost one. On main. */
uint64_t device_free_bytes(struct device *device);

/* NO_MEMORY with a sentence: so many bytes for what ("KV blocks"), 0: nobody knows how many, of the device, and what of it is
 * free. Behind an allocation that failed, or in front of one that would. DEVICE_LOST with another, if it is that. */
MUST_CHECK enum status device_no_memory(struct device *device, const char *what, uint64_t bytes,
                                        struct error *error);

/* ---- order ---- */

struct device_ticket device_record(struct device *device, enum device_queue queue);
/* What is enqueued on queue from now on runs when ticket's record is done. */
void device_after(struct device *device, enum device_queue queue, struct device_ticket ticket);
/* (any) NOT_READY: not done yet. A device is lost, too, when a queue that is polled has not gone on for two limits of
 * device_wait. */
MUST_CHECK enum status device_poll(struct device *device, struct device_ticket ticket);
/* Polls until it is OK or DEVICE_LOST; a device that takes longer than its limit is lost. */
MUST_CHECK enum status device_wait(struct device *device, struct device_ticket ticket);
/* The limit, which nobody makes shorter than DEVICE_WAIT_LIMIT_NS, what it is at first. On main. */
void device_set_wait_limit(struct device *device, uint64_t limit_ns);

#define DEVICE_WAIT_LIMIT_NS 30000000000ull

/* ---- bytes ---- */

/* Of a read's or write's view, but where the write goes to the base of memory of DEVICE_STAGING: then as long as that. */
#define DEVICE_VIEW_BYTES_MAX (4u << 20)
#define DEVICE_PIECE_BYTES    (256u << 10)

/* Views for what a queue of copies reads and writes that there are at a time, of up to DEVICE_PIECE_BYTES; 0: as many as anybody
 * likes. */
uint32_t device_n_views(const struct device *device);
/* Where the host sees bytes of the device, on the host the bytes themselves: from when a ticket recorded behind this
 * is done until read_end. QUEUE_FULL: as many are being read as can be, nothing was enqueued; whoever computes is not kept from
 * its results by who copies, so the compute queue's owner is told so only while it has views, or writes under way. DEVICE_LOST. */
MUST_CHECK enum status device_read(struct device *device, enum device_queue queue,
                                   const uint8_t *source, size_t bytes, const uint8_t **view_out);
/* The read is done, or the device is lost. */
void device_read_end(struct device *device, const uint8_t *view);

/* Where the host may put what is to go to target, on the host target itself: until write or write_drop, one of the
 * two. Aligned as target is, as far as 64 bytes. QUEUE_FULL, DEVICE_LOST as read. */
MUST_CHECK enum status device_write_begin(struct device *device, uint8_t *target, size_t bytes,
                                          uint8_t **view_out);
/* The target has the view's bytes when a ticket recorded behind this is done. */
void device_write(struct device *device, enum device_queue queue, uint8_t *target, uint8_t *view,
                  size_t bytes);
void device_write_drop(struct device *device, uint8_t *view);

/* From one address of the device to another, which may be another process's (device_import). It has it when a ticket
 * recorded behind this is done. A device that cannot export need not have it. */
void device_copy(struct device *device, enum device_queue queue, uint8_t *target,
                 const uint8_t *source, size_t bytes);

/* CRC32C of bytes; digest_out is written before a ticket recorded behind this is done, and stays until then. */
void device_digest(struct device *device, enum device_queue queue, const uint8_t *bytes,
                   size_t n_bytes, uint32_t *digest_out);

/* ---- memory of another process of this machine, with a device of its own ---- */

#define DEVICE_HANDLE_BYTES 64u

/* What another process opens the memory by. Whoever has it, and may use the device, reads and writes the memory. */
struct device_handle {
    uint8_t bytes[DEVICE_HANDLE_BYTES];
};

/* What is exported is as long as a multiple of this: a driver may lay shorter memory into a piece that has somebody else's, too,
 * and exports the piece. */
#define DEVICE_EXPORT_BYTES (2ull << 20)

/* Another process can have its memory. */
bool device_can_export(const struct device *device);
/* Of memory that was allocated. It is not freed while another process has it open. UNSUPPORTED with a sentence. DEVICE_LOST. */
MUST_CHECK enum status device_export(struct device *device, const struct device_memory *memory,
                                     struct device_handle *handle_out, struct error *error);

/* To be read only, by device_copy; who opened it closes it. Its length is what this process's own device says: whoever sent the
 * handle has no word in it. */
struct device_mapping {
    const uint8_t *base; /* NULL: none */
    size_t bytes;
};
/* (any thread) UNSUPPORTED with a sentence: it leads to nothing that can be had here, for whatever reason. DEVICE_LOST. */
MUST_CHECK enum status device_import(struct device *device, const struct device_handle *handle,
                                     struct device_mapping *mapping_out, struct error *error);
/* (any thread) Every copy out of it is done. Zeroes it; a zeroed one is fine. */
void device_import_close(struct device *device, struct device_mapping *mapping);

/* ---- kernels ---- */

/* What a device runs: modules in its own format, and the kernels in them by name. Borrowed until close. */
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
        shared_bytes_max; /* of a CTA: a launch asks for more only where the device's traits have it */
};
/* Once, at start. UNSUPPORTED: no kernels for this device are part of this build, it runs none, or its CTAs are too small for
 * them. DEVICE_LOST. */
MUST_CHECK enum status device_load(struct device *device, const struct device_image *image,
                                   struct error *error);

#define DEVICE_GRID_MAX 65535u

struct device_shape {
    uint32_t grid[3];      /* CTAs; each at least 1, the second and third at most DEVICE_GRID_MAX */
    uint32_t threads;      /* of a CTA */
    uint32_t shared_bytes; /* dynamic */
};
/* On the compute queue. kernel: an index into the image that was loaded. parameters are copied; addresses in them are the
 * device's. */
void device_launch(struct device *device, uint32_t kernel, const struct device_shape *shape,
                   const void *parameters, size_t bytes);

/* ---- graphs: launches that are kept, and enqueued again all at once ---- */

struct device_graph;

bool device_captures(const struct device *device);
/* At start, on a device that captures. What is launched from now on until end is kept and not run, and nothing else may be
 * enqueued on the compute queue. */
void device_capture_begin(struct device *device);
/* What the device takes for the graph counts as DEVICE_WORKSPACE, as far as it says. NO_MEMORY, DEVICE_LOST: there is none. */
MUST_CHECK enum status device_capture_end(struct device *device, struct device_graph **graph_out);
/* Enqueues on the compute queue what was captured, with the parameters of then; what these point to is read when it runs. */
void device_replay(struct device *device, struct device_graph *graph);
/* No replay of it is under way. NULL is fine. */
void device_graph_destroy(struct device *device, struct device_graph *graph);

/* ---- products by a library of the device's maker: faster than kernels of one's own, and in orders that are the library's ---- */

enum device_number { DEVICE_F32, DEVICE_F16, DEVICE_BF16 };

/* y[t][o] = sum over i of w[o][i] x[t][i], added to y where it accumulates. Strides in elements from token to token. */
struct device_product {
    const void *w, *x; /* of operand: [n_out][n_in], [n_tokens][n_in] */
    void *y;           /* of result: [n_tokens][n_out] */
    uint64_t x_stride, y_stride;
    uint32_t n_tokens, n_in, n_out;
    enum device_number operand, result;
    bool accumulates;
};

#define DEVICE_PRODUCTS_BYTES                                                                      \
    ((size_t)32 << 20) /* of a workspace: what NVIDIA advises from sm_90 on */

/* At start: takes a workspace of DEVICE_WORKSPACE. UNSUPPORTED: there is no such library. NO_MEMORY, DEVICE_LOST. With a sentence. */
MUST_CHECK enum status device_open_products(struct device *device, struct error *error);
/* Nothing that was enqueued is under way. One that is not open is fine. */
void device_close_products(struct device *device);
/* At start: such products, with as many tokens or fewer, may be asked for. Computes it once, from zeros. UNSUPPORTED, DEVICE_LOST. */
MUST_CHECK enum status device_plan_product(struct device *device,
                                           const struct device_product *product,
                                           struct error *error);
/* On the compute queue, or in a capture. False: there is no plan that takes it, and nothing was enqueued; or the device is lost. A
 * failure of the library loses it. */
bool device_multiply(struct device *device, const struct device_product *product);

/* From now on this thread's calls of kernels/ run on device; NULL: on none. A host need not be bound. */
void device_bind(struct device *device);
/* NULL: none was bound. */
struct device *device_bound(void);
