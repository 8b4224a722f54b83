/*
 * device_ops - what an implementation of a device does: host.c and cuda.c; tests/device/fault_device.c runs its queues in
 * any legal order, delays, fails and becomes lost by a seed.
 *
 * device.c holds what is the same for all: the timelines, the comparison of polls, the sticky error, the count of bytes.
 * No function is called on a lost device but close, free, read_end, write_drop and graph_destroy. Any failure but QUEUE_FULL, NO_MEMORY
 * and UNSUPPORTED makes the device lost.
 */
#pragma once

#include "device/device.h"

#include <stdatomic.h>

struct device_ops {
    void (*close)(struct device *device);
    enum status (*allocate)(struct device *device, size_t bytes, uint8_t **base_out);
    /* NULL: nothing. allocate's memory is of DEVICE_STAGING: writes from its base on are as long as it is. */
    enum status (*stage)(struct device *device, uint8_t *base, size_t bytes);
    void (*free)(struct device *device, uint8_t *base, size_t bytes);
    enum status (*wrap)(struct device *device, uint8_t *base, size_t bytes);
    void (*touch)(struct device *device, uint8_t *base, size_t bytes, struct thread_pool *threads);

    /* NULL: it has no memory of its own. */
    enum status (*free_bytes)(struct device *device, uint64_t *bytes_out);

    /* sequence is one more than the queue's last. */
    enum status (*record)(struct device *device, enum device_queue queue, uint64_t sequence);
    enum status (*after)(struct device *device, enum device_queue queue,
                         struct device_ticket ticket);
    /* (any thread) The last record of queue that is done, 0: none. */
    enum status (*completed)(struct device *device, enum device_queue queue,
                             uint64_t *sequence_out);

    enum status (*read)(struct device *device, enum device_queue queue, const uint8_t *source,
                        size_t bytes, const uint8_t **view_out);
    void (*read_end)(struct device *device, const uint8_t *view);
    enum status (*write_begin)(struct device *device, uint8_t *target, size_t bytes,
                               uint8_t **view_out);
    enum status (*write)(struct device *device, enum device_queue queue, uint8_t *target,
                         uint8_t *view, size_t bytes);
    void (*write_drop)(struct device *device, uint8_t *view);
    enum status (*digest)(struct device *device, enum device_queue queue, const uint8_t *bytes,
                          size_t n_bytes, uint32_t *digest_out);

    /* All NULL: no other process has its memory, as of a host. memory is whole DEVICE_EXPORT_BYTES. */
    enum status (*export_memory)(struct device *device, uint8_t *base, size_t bytes,
                                 struct device_handle *handle_out, struct error *error);
    enum status (*import_memory)(struct device *device, const struct device_handle *handle,
                                 struct device_mapping *mapping_out, struct error *error);
    enum status (*import_close)(struct device *device, const struct device_mapping *mapping);
    enum status (*copy)(struct device *device, enum device_queue queue, uint8_t *target,
                        const uint8_t *source, size_t bytes);

    /* Both NULL: it runs no kernels of its own, as a host. */
    enum status (*load)(struct device *device, const struct device_image *image,
                        struct error *error);
    enum status (*launch)(struct device *device, uint32_t kernel, const struct device_shape *shape,
                          const void *parameters, size_t bytes);

    /* All NULL: it captures nothing. Between begin and end there are launches alone. */
    enum status (*capture_begin)(struct device *device);
    enum status (*capture_end)(struct device *device, struct device_graph **graph_out);
    enum status (*replay)(struct device *device, struct device_graph *graph);
    void (*graph_destroy)(struct device *device, struct device_graph *graph);

    /* All NULL: its maker has no library of products. close also behind an open that failed. */
    enum status (*products_open)(struct device *device, struct error *error);
    void (*products_close)(struct device *device);
    enum status (*plan_product)(struct device *device, const struct device_product *product,
                                struct error *error);
    /* UNSUPPORTED: no plan takes it, and nothing was enqueued. */
    enum status (*product)(struct device *device, const struct device_product *product);
};

/* First member of each implementation's object. */
struct device_graph {
    uint64_t bytes; /* of the device's memory, as far as it says */
};

/* What polls of a queue wait for. The time is written first, so that a poll of another thread that sees the sequence sees
 * no older time. */
struct device_pending {
    _Atomic uint64_t sequence; /* behind the last that was done; 0: nobody has waited */
    _Atomic uint64_t since_ns;
};

/* First member of each implementation's object. */
struct device {
    const struct device_ops *ops;
    const char *name;
    bool reads_host;        /* device_reads_host */
    uint64_t wait_limit_ns; /* device_set_wait_limit; 0: DEVICE_WAIT_LIMIT_NS */
    uint32_t n_views;       /* device_n_views */
    bool wants_static_steps;
    bool is_capturing; /* of the compute queue's owner */
    struct device_traits traits;
    const struct device_image *image; /* once it is loaded */
    atomic_bool is_lost;
    _Atomic uint64_t n_recorded[DEVICE_QUEUES]; /* written by the queue's owner */
    struct device_pending pending[DEVICE_QUEUES];
    _Atomic uint64_t bytes[DEVICE_USES];
};
