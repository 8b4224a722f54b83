/*
 * device_ops - the functions of a device implementation: host.c and cuda.c. tests/device/fault_device.c runs its queues
 * in any legal order, and delays, fails and becomes lost by a seed.
 *
 * device.c has the common parts: the timelines, the comparison of polls, the sticky error, the count of bytes. On a
 * lost device only close, free, read_end, write_drop and graph_destroy are called. Every failure except QUEUE_FULL,
 * NO_MEMORY and UNSUPPORTED makes the device lost.
 */
#pragma once

#include "device/device.h"

#include <stdatomic.h>

struct device_ops {
    void (*close)(struct device *device);
    enum status (*allocate)(struct device *device, size_t bytes, uint8_t **base_out);
    /* May be NULL. Called for allocated DEVICE_STAGING memory: writes from its base may be as long as it is. */
    enum status (*stage)(struct device *device, uint8_t *base, size_t bytes);
    void (*free)(struct device *device, uint8_t *base, size_t bytes);
    enum status (*wrap)(struct device *device, uint8_t *base, size_t bytes);
    void (*touch)(struct device *device, uint8_t *base, size_t bytes, struct thread_pool *threads);

    /* NULL: the device has no own memory. */
    enum status (*free_bytes)(struct device *device, uint64_t *bytes_out);

    /* sequence is one more than the queue's last one. */
    enum status (*record)(struct device *device, enum device_queue queue, uint64_t sequence);
    enum status (*after)(struct device *device, enum device_queue queue,
                         struct device_ticket ticket);
    /* (any thread) The last record of queue that is done; 0: none. */
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

    /* All NULL: other processes cannot open its memory, as on a host. memory is a multiple of
     * DEVICE_EXPORT_BYTES. */
    enum status (*export_memory)(struct device *device, uint8_t *base, size_t bytes,
                                 struct device_handle *handle_out, struct error *error);
    enum status (*import_memory)(struct device *device, const struct device_handle *handle,
                                 struct device_mapping *mapping_out, struct error *error);
    enum status (*import_close)(struct device *device, const struct device_mapping *mapping);
    enum status (*copy)(struct device *device, enum device_queue queue, uint8_t *target,
                        const uint8_t *source, size_t bytes);

    /* Both NULL: it runs no image of kernels, like a host. */
    enum status (*load)(struct device *device, const struct device_image *image,
                        struct error *error);
    enum status (*launch)(struct device *device, uint32_t kernel, const struct device_shape *shape,
                          const void *parameters, size_t bytes);

    /* All NULL: it does not capture. Between begin and end there are only launches. */
    enum status (*capture_begin)(struct device *device);
    enum status (*capture_end)(struct device *device, struct device_graph **graph_out);
    enum status (*replay)(struct device *device, struct device_graph *graph);
    void (*graph_destroy)(struct device *device, struct device_graph *graph);

    /* All NULL: no library for matrix products. close is also called after a failed open. */
    enum status (*products_open)(struct device *device, struct error *error);
    void (*products_close)(struct device *device);
    enum status (*plan_product)(struct device *device, const struct device_product *product,
                                struct error *error);
    /* UNSUPPORTED: no plan fits, and nothing was enqueued. */
    enum status (*product)(struct device *device, const struct device_product *product);
};

/* First member of each implementation's object. */
struct device_graph {
    uint64_t bytes; /* of device memory, as far as it is known */
};

/* The record that polls of a queue wait for. The time is written first, so that a poll in another thread that sees the
 * sequence does not see an older time. */
struct device_pending {
    _Atomic uint64_t sequence; /* one after the last that was done; 0: no wait yet */
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
    bool is_capturing; /* used by the compute queue's owner */
    struct device_traits traits;
    const struct device_image *image; /* set when it is loaded */
    atomic_bool is_lost;
    _Atomic uint64_t n_recorded[DEVICE_QUEUES]; /* written by the queue's owner */
    struct device_pending pending[DEVICE_QUEUES];
    _Atomic uint64_t bytes[DEVICE_USES];
};
