/*
 * device_place - a matrix of the host's, or some of its rows or columns, where kernels of a device read it.
 *
 *     host     [n_rows][n_columns], any alignment
 *     slice    rows first_row .. + n_rows, of each columns first_column .. + n_columns
 *     placed   [slice.n_rows][slice.n_columns] without gaps
 *
 * Whole rows lie in one run: a device that reads the host's memory gets them where they are, same address, nothing
 * copied or touched. Columns, and everything for a device with memory of its own, are packed into memory of the device
 * (DEVICE_WEIGHTS) by way of a queue.
 *
 * Thread: the queue's, at start.
 */
#pragma once

#include "device/device.h"

struct device_matrix {
    const void *data; /* in place: its owner keeps it as long as anybody computes with it */
    uint64_t n_rows, n_columns;
    size_t element_bytes;
};

struct device_slice {
    uint64_t first_row, n_rows;
    uint64_t first_column, n_columns;
};

/* All of it. */
struct device_slice device_slice_whole(const struct device_matrix *matrix);

struct device_placed {
    const void *data;            /* an address of the device */
    struct device_memory memory; /* base NULL: in place; else the caller's, to device_free */
};

/* The bytes are there when a ticket is done that was recorded on queue behind this, and the matrix is not read any more.
 * INVALID_ARGUMENT: the slice is empty or goes beyond the matrix. NO_MEMORY, DEVICE_LOST. All with a sentence. */
MUST_CHECK enum status device_place(struct device *device, enum device_queue queue,
                                    const struct device_matrix *matrix,
                                    const struct device_slice *slice, struct error *error,
                                    struct device_placed *placed_out);
