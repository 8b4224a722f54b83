/*
 * cuda_device - the state that the files of the CUDA device share: queues, pinned memory and kernels of
 * one device.
 *
 *     cuda.c         open, close, memory, bytes      cuda_queue.c    streams, records, waits, polls
 *     cuda_device.c  the current context, failures
 *     cuda_ring.c    pinned views                    cuda_image.c    modules, functions, launches
 *     cuda_digest.c  digests under way               cuda_driver.c   the library, cuda_status.c its codes
 *     cuda_graph.c   captures, replays            cuda_ipc.c      memory of another process
 *     cuda_products.c  products by cuBLASLt
 *
 * Thread: as device.h; each lock's comment says what it guards.
 */
#pragma once

#include "device/cuda_driver.h"
#include "device/device_ops.h"

#include <pthread.h>

enum {
    CUDA_EVENTS = 64,         /* for the records of a queue */
    CUDA_DIGESTS = 256,       /* of a queue, in progress */
    CUDA_DIGEST_PIECES = 1024 /* of one digest: 64 MiB; the host computes longer ones */
};

/* A digest whose kernel is enqueued: out is written when the record with that number is done. */
struct cuda_digest {
    uint32_t *out;
    uint64_t sequence;
};

struct cuda_digests {
    cuda_address words;                       /* of the device, [CUDA_DIGESTS] */
    void *pinned;                             /* contains copies */
    uint32_t *copies;                         /* [CUDA_DIGESTS] */
    struct cuda_digest waiting[CUDA_DIGESTS]; /* a ring */
    uint64_t begin, end;
};

/*
 * The record with sequence s uses events[s % CUDA_EVENTS]. When that event is reused, its earlier record is dropped: it
 * is done when the oldest kept record is done, which was recorded after it.
 */
struct cuda_queue {
    cuda_stream stream;
    cuda_event events[CUDA_EVENTS];
    _Atomic uint64_t n_recorded;  /* written by the owner after the driver's call */
    _Atomic uint64_t n_completed; /* written with the lock */
    pthread_mutex_t lock;         /* guards the digests and the polling of events */
    struct cuda_digests digests;
};

/* Pinned memory of the host: cuda_ring.h. */
enum { CUDA_LARGE_SLOTS = 4, CUDA_SMALL_SLOTS = 64, CUDA_TWINS_MAX = 16 };
enum { CUDA_SLOTS_MAX = CUDA_LARGE_SLOTS + CUDA_SMALL_SLOTS + CUDA_TWINS_MAX };

enum cuda_slot_state { CUDA_SLOT_FREE, CUDA_SLOT_HELD, CUDA_SLOT_COPYING };

struct cuda_slot {
    uint8_t *memory;
    void *pinned; /* of a twin: the driver's allocation that contains memory; NULL: in the ring */
    size_t bytes;
    const uint8_t *target; /* of a twin: its arena; NULL: for any use */
    enum cuda_slot_state state;
    cuda_event copied; /* recorded after the copy of a write */
};

struct cuda_ring {
    pthread_mutex_t lock; /* guards the whole ring */
    void *pinned;         /* the driver's allocation, which contains large and small */
    struct cuda_slot slots[CUDA_SLOTS_MAX];
    uint32_t n_slots;
    uint32_t next; /* where the search for a small slot begins: about the oldest */
};

struct cuda_device {
    struct device base;
    char name[16]; /* "cuda:0" */
    uint64_t id;   /* unique in this process; a thread stores it as its current device */
    struct cuda_driver driver;
    cuda_ordinal ordinal;
    cuda_context context;
    cuda_stream start_stream; /* for main at start: zeroes memory */
    struct cuda_queue queues[DEVICE_QUEUES];
    struct cuda_ring ring;
    struct cuda_products *products; /* NULL: not opened */
    cuda_module *modules;           /* [n_modules] once the image is loaded */
    uint32_t n_modules;
    cuda_function *functions;               /* [image n_kernels] */
    uint32_t digest_kernel, digest_combine; /* indices into them */
    bool has_digest;                        /* the image has these kernels */
    atomic_bool has_failed;                 /* the first failure is logged */
};

static inline struct cuda_device *cuda_of(struct device *device)
{
    return (struct cuda_device *)device; /* base is its first member */
}

/* Notes that other calls gave this thread the context of that device; NULL: of none. */
void cuda_has_current(const struct cuda_device *cuda);
/* Makes the context current in this thread. */
enum status cuda_make_current(struct cuda_device *cuda);
/* The result of a necessary driver call: OK, or DEVICE_LOST with a log line. */
enum status cuda_judge(struct cuda_device *cuda, const char *call, cuda_code code);

/* The result of a driver call at start. The sentence has what (NULL: only the call's name) and, without memory, how
 * much is free. */
enum status cuda_fail(struct cuda_device *cuda, const char *what, const char *call, cuda_code code,
                      struct error *error);
/* Returns status; for NO_MEMORY it appends the device's free memory to the sentence, if it can be read. */
MUST_CHECK enum status cuda_say_room(struct cuda_device *cuda, enum status status,
                                     struct error *error);

/* Both return a failure to the caller. Only for functions with nothing to release. */
#define CUDA_DO(cuda, call, ...) TRY(cuda_judge(cuda, #call, (cuda)->driver.call(__VA_ARGS__)))
#define CUDA_TRY(cuda, error, call, ...)                                                           \
    do {                                                                                           \
        cuda_code code_ = (cuda)->driver.call(__VA_ARGS__);                                        \
        if (code_ != CUDA_CODE_SUCCESS)                                                            \
            return cuda_fail(cuda, NULL, #call, code_, error);                                     \
    } while (0)

/* cuda_ring.c: pinned memory of the host, page-aligned at memory_out. */
enum status cuda_pin(struct cuda_device *cuda, size_t bytes, void **pinned_out,
                     uint8_t **memory_out, struct error *error);

/* cuda_queue.c */
enum status cuda_queue_create(struct cuda_device *cuda, struct cuda_queue *queue,
                              struct error *error);
void cuda_queue_destroy(struct cuda_device *cuda, struct cuda_queue *queue);
enum status cuda_record(struct device *device, enum device_queue number, uint64_t sequence);
enum status cuda_after(struct device *device, enum device_queue number,
                       struct device_ticket ticket);
enum status cuda_completed(struct device *device, enum device_queue number, uint64_t *sequence_out);

/* cuda_image.c */
enum status cuda_load(struct device *device, const struct device_image *image, struct error *error);
void cuda_unload(struct cuda_device *cuda);
enum status cuda_launch_kernel(struct device *device, uint32_t kernel,
                               const struct device_shape *shape, const void *parameters,
                               size_t bytes);
enum status cuda_launch_on(struct cuda_device *cuda, cuda_stream stream, uint32_t kernel,
                           const struct device_shape *shape, const void *parameters);

/* cuda_graph.c */
enum status cuda_capture_begin(struct device *device);
enum status cuda_capture_end(struct device *device, struct device_graph **graph_out);
enum status cuda_replay(struct device *device, struct device_graph *graph);
void cuda_graph_destroy(struct device *device, struct device_graph *graph);

/* cuda_ipc.c */
enum status cuda_export(struct device *device, uint8_t *base, size_t bytes,
                        struct device_handle *handle_out, struct error *error);
enum status cuda_import(struct device *device, const struct device_handle *handle,
                        struct device_mapping *mapping_out, struct error *error);
enum status cuda_import_close(struct device *device, const struct device_mapping *mapping);
enum status cuda_copy(struct device *device, enum device_queue number, uint8_t *target,
                      const uint8_t *source, size_t bytes);

/* cuda_products.c */
enum status cuda_products_open(struct device *device, struct error *error);
void cuda_products_close(struct device *device);
enum status cuda_plan_product(struct device *device, const struct device_product *product,
                              struct error *error);
enum status cuda_product(struct device *device, const struct device_product *product);

/* cuda_digest.c */
enum status cuda_digests_create(struct cuda_device *cuda, struct cuda_digests *digests,
                                struct error *error);
void cuda_digests_destroy(struct cuda_device *cuda, struct cuda_digests *digests);
enum status cuda_digest(struct device *device, enum device_queue number, const uint8_t *bytes,
                        size_t n_bytes, uint32_t *digest_out);
/* With the queue's lock: delivers the digests whose record is done. */
void cuda_digests_deliver(struct cuda_digests *digests, uint64_t n_completed);
