#include "device/device_place.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define PIECE_BYTES DEVICE_VIEW_BYTES_MAX /* bytes of one write */

struct device_slice device_slice_whole(const struct device_matrix *matrix)
{
    return (struct device_slice){.n_rows = matrix->n_rows, .n_columns = matrix->n_columns};
}

static enum status check_range(const char *what, uint64_t first, uint64_t n, uint64_t n_all,
                               struct error *error)
{
    if (n > 0 && first < n_all && n <= n_all - first)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "a slice of %" PRIu64 " %s from %" PRIu64 " on, of a matrix that has %" PRIu64,
                     n, what, first, n_all);
}

/* A slice in bytes: rows of row_bytes, stride apart. */
struct run {
    const uint8_t *first;
    uint64_t stride, row_bytes, n_rows;
};

static struct run run_of(const struct device_matrix *matrix, const struct device_slice *slice)
{
    uint64_t stride = matrix->n_columns * matrix->element_bytes;
    return (struct run){
        .first = (const uint8_t *)matrix->data + slice->first_row * stride +
                 slice->first_column * matrix->element_bytes,
        .stride = stride,
        .row_bytes = slice->n_columns * matrix->element_bytes,
        .n_rows = slice->n_rows,
    };
}

/* Copies bytes at .. at + bytes - 1 of the packed slice. */
static void pack(const struct run *run, uint64_t at, size_t bytes, uint8_t *packed)
{
    while (bytes > 0) {
        uint64_t in_row = at % run->row_bytes;
        uint64_t n = run->row_bytes - in_row < bytes ? run->row_bytes - in_row : bytes;
        memcpy(packed, run->first + at / run->row_bytes * run->stride + in_row, n);
        packed += n;
        at += n;
        bytes -= n;
    }
}

/* Gets a view for the next piece; waits if all are in use. */
static enum status begin_write(struct device *device, enum device_queue queue, uint8_t *target,
                               size_t bytes, uint8_t **view_out)
{
    enum status status = device_write_begin(device, target, bytes, view_out);
    while (status == STATUS_QUEUE_FULL) {
        TRY(device_wait(device, device_record(device, queue)));
        status = device_write_begin(device, target, bytes, view_out);
    }
    return status;
}

static enum status copy(struct device *device, enum device_queue queue, const struct run *run,
                        const struct device_memory *memory)
{
    for (uint64_t at = 0, n; at < memory->bytes; at += n) {
        uint8_t *view;
        n = memory->bytes - at < PIECE_BYTES ? memory->bytes - at : PIECE_BYTES;
        TRY(begin_write(device, queue, memory->base + at, n, &view));
        pack(run, at, n, view);
        device_write(device, queue, memory->base + at, view, n);
    }
    return device_is_lost(device) ? STATUS_DEVICE_LOST : STATUS_OK;
}

enum status device_place(struct device *device, enum device_queue queue,
                         const struct device_matrix *matrix, const struct device_slice *slice,
                         struct error *error, struct device_placed *placed_out)
{
    struct device_placed placed = {0};
    assert(matrix->data && matrix->element_bytes > 0);
    TRY(check_range("rows", slice->first_row, slice->n_rows, matrix->n_rows, error));
    TRY(check_range("columns", slice->first_column, slice->n_columns, matrix->n_columns, error));
    const struct run run = run_of(matrix, slice);
    const uint64_t bytes = run.row_bytes * run.n_rows;
    if (device_reads_host(device) && (run.row_bytes == run.stride || run.n_rows == 1)) {
        *placed_out = (struct device_placed){.data = run.first};
        return STATUS_OK;
    }
    enum status status = device_allocate(device, DEVICE_WEIGHTS, bytes, &placed.memory);
    if (status == STATUS_OK)
        status = copy(device, queue, &run, &placed.memory);
    if (status == STATUS_NO_MEMORY && !placed.memory.base)
        return device_no_memory(device, "weights of one matrix", bytes, error);
    if (status != STATUS_OK) {
        device_free(device, &placed.memory);
        return error_set(error, status, "%s: %s for %" PRIu64 " bytes of weights",
                         device_name(device), status_text(status), bytes);
    }
    placed.data = placed.memory.base;
    *placed_out = placed;
    return STATUS_OK;
}
