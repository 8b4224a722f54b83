/*
 * cuda_device - what the files of the CUDA device share: one device's queues, pinned memory and kernels.
 *
 *     cuda.c         open, close, memory, bytes      cuda_queue.c    streams, records, waits, polls
 *     cuda_device.c  the current context, failures
 *     cuda_ring.c    pinned views                    cuda_image.c    modules, functions, launches
 *     cuda_digest.c  digests under way               cuda_driver.c   the library, cuda_status.c its codes
 *     cuda_graph.c   captures, replays            cuda_ipc.c      memory of another process
 *     cuda_products.c  products by cuBLASLt
 *
 * Thread: as device.h; a lock says what it is for.
 */
#pragma once

#include "device/cuda_driver.h"
#include "device/device_ops.h"

#include <pthread.h>

enum {
    CUDA_EVENTS = 64,         /* of a queue's records */
    CUDA_DIGESTS = 256,       /* of a queue, under way */
    CUDA_DIGEST_PIECES = 1024 /* of one digest: 64 MiB; longer ones go by way of the host */
};

/* A digest whose kernel has been enqueued: out gets it when the record of that number is done. */
struct cuda_digest {
    uint32_t *out;
    uint64_t sequence;
};

struct cuda_digests {
    cuda_address words;                       /* of the device, [CUDA_DIGESTS] */
    void *pinned;                             /* of which: */
    uint32_t *copies;                         /* [CUDA_DIGESTS] */
    struct cuda_digest waiting[CUDA_DIGESTS]; /* a ring */
    uint64_t begin, end;
};

/*
 * The record of sequence s is made with events[s % CUDA_EVENTS]. When that event is used again the record before it is forgotten:
 * it is done when the oldest that is known is done, which was recorded behind it.
 */
struct cuda_queue {
    cuda_stream stream;
    cuda_event events[CUDA_EVENTS];
    _Atomic uint64_t n_recorded;  /* written behind the driver's call, by the owner */
    _Atomic uint64_t n_completed; /* written with the lock */
    pthread_mutex_t lock;         /* digests, and who looks at the events */
    struct cuda_digests digests;
};

/* Pinned memory of the host: cuda_ring.h. */
enum { CUDA_LARGE_SLOTS = 4, CUDA_SMALL_SLOTS = 64, CUDA_TWINS_MAX = 16 };
enum { CUDA_SLOTS_MAX = CUDA_LARGE_SLOTS + CUDA_SMALL_SLOTS + CUDA_TWINS_MAX };

enum cuda_slot_state { CUDA_SLOT_FREE, CUDA_SLOT_HELD, CUDA_SLOT_COPYING };

struct cuda_slot {
    uint8_t *memory;
    void *pinned; /* of a twin: what the driver gave, memory is in it; NULL: the ring's */
    size_t bytes;
    const uint8_t *target; /* of a twin: the arena; NULL: anybody's */
    enum cuda_slot_state state;
    cuda_event copied; /* recorded behind the copy of a write */
};

struct cuda_ring {
    pthread_mutex_t lock; /* all of it */
    void *pinned;         /* what the driver gave: large and small are in it */
    struct cuda_slot slots[CUDA_SLOTS_MAX];
    uint32_t n_slots;
    uint32_t next; /* where the search for a small one begins: the oldest, about */
};

struct cuda_device {
    struct device base;
    char name[16]; /* "cuda:0" */
    uint64_t id;   /* of all that this process opened: what a thread has current */
    struct cuda_driver driver;
    cuda_ordinal ordinal;
    cuda_context context;
    cuda_stream start_stream; /* of main, at start: memory is made zero */
    struct cuda_queue queues[DEVICE_QUEUES];
    struct cuda_ring ring;
    struct cuda_products *products; /* NULL: not opened */
    cuda_module *modules;           /* [n_modules] once the image is loaded */
    uint32_t n_modules;
    cuda_function *functions;               /* [image n_kernels] */
    uint32_t digest_kernel, digest_combine; /* indices into them */
    bool has_digest;                        /* there are such kernels */
    atomic_bool has_failed;                 /* the first failure is logged */
};

static inline struct cuda_device *cuda_of(struct device *device)
{
    return (struct cuda_device *)device; /* base is its first member */
}

/* This thread has the context of that device, NULL: of none, by other calls. */
void cuda_has_current(const struct cuda_device *cuda);
/* The context is this thread's. */
enum status cuda_make_current(struct cuda_device *cuda);
/* What the driver said to something that cannot be done without: OK, or DEVICE_LOST with a line in the log. */
enum status cuda_judge(struct cuda_device *cuda, const char *call, cuda_code code);

/* What the driver said at start, of what (NULL: the call's name says it), and if there was no memory for it what is free. */
enum status cuda_fail(struct cuda_device *cuda, const char *what, const char *call, cuda_code code,
                      struct error *error);
/* status; if it is NO_MEMORY, what is free of the device is behind the sentence, as far as it can be asked. */
MUST_CHECK enum status cuda_say_room(struct cuda_device *cuda, enum status status,
                                     struct error *error);

/* Both return a failure upward. In a function that holds nothing. */
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
/* With the queue's lock: those whose record is done get to who asked. */
void cuda_digests_deliver(struct cuda_digests *digests, uint64_t n_completed);
