/*
 * device_place - places a matrix of the host, or some of its rows or columns, where the kernels of a device can read
 * it.
 *
 *     host     [n_rows][n_columns], any alignment
 *     slice    rows first_row .. + n_rows, columns first_column .. + n_columns
 *     placed   [slice.n_rows][slice.n_columns] without gaps
 *
 * Whole rows are contiguous: a device that reads the host's memory uses them in place, without a copy. Columns, and
 * everything for a device with its own memory, are packed into device memory (DEVICE_WEIGHTS) through a queue.
 *
 * Thread: the queue's, at start.
 */
#pragma once

#include "device/device.h"

struct device_matrix {
    const void *data; /* in place: its owner keeps it as long as it is used */
    uint64_t n_rows, n_columns;
    size_t element_bytes;
};

struct device_slice {
    uint64_t first_row, n_rows;
    uint64_t first_column, n_columns;
};

/* A slice of the whole matrix. */
struct device_slice device_slice_whole(const struct device_matrix *matrix);

struct device_placed {
    const void *data;            /* an address of the device */
    struct device_memory memory; /* base NULL: in place; else the caller frees it */
};

/* When a ticket recorded on queue after this is done, the bytes are there and the matrix is not read any more.
 * INVALID_ARGUMENT: the slice is empty or exceeds the matrix. NO_MEMORY, DEVICE_LOST. All with a sentence. */
MUST_CHECK enum status device_place(struct device *device, enum device_queue queue,
                                    const struct device_matrix *matrix,
                                    const struct device_slice *slice, struct error *error,
                                    struct device_placed *placed_out);
