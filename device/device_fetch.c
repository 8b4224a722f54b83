#include "device/device_fetch.h"

#include <assert.h>
#include <string.h>

#define TRIES_MAX   64u        /* of a copy that finds no view; each waits for the compute queue */
#define PIECE_BYTES (1u << 20) /* of one read: a device stages this much at a time */

enum { PIECES_MAX = 8 }; /* reads in progress */

/* copied: bytes in target so far; read: bytes whose read was started; of n_bytes. */
struct fetch {
    struct device *device;
    const uint8_t *source;
    uint8_t *target;
    size_t n_bytes, read, copied;
    const uint8_t *views[PIECES_MAX];
    uint32_t n_views;
};

static size_t piece_bytes(const struct fetch *fetch, size_t at)
{
    return fetch->n_bytes - at < PIECE_BYTES ? fetch->n_bytes - at : PIECE_BYTES;
}

static enum status wait_for_all(struct device *device)
{
    return device_wait(device, device_record(device, DEVICE_COMPUTE));
}

static enum status read_piece(struct fetch *fetch, size_t bytes)
{
    return device_read(fetch->device, DEVICE_COMPUTE, fetch->source + fetch->read, bytes,
                       &fetch->views[fetch->n_views]);
}

/* Starts as many reads as there are views, at least one. DEVICE_LOST. */
static enum status enqueue(struct fetch *fetch)
{
    while (fetch->read < fetch->n_bytes && fetch->n_views < PIECES_MAX) {
        const size_t bytes = piece_bytes(fetch, fetch->read);
        enum status status = read_piece(fetch, bytes);
        if (status == STATUS_QUEUE_FULL && fetch->n_views > 0)
            return STATUS_OK;
        if (status == STATUS_QUEUE_FULL) { /* its own writes use the views */
            TRY(wait_for_all(fetch->device));
            status = read_piece(fetch, bytes);
        }
        assert(status != STATUS_QUEUE_FULL && "there are views for who computes");
        TRY(status);
        fetch->n_views++;
        fetch->read += bytes;
    }
    return STATUS_OK;
}

/* Ends the reads; is_read: copies their bytes first. */
static void take(struct fetch *fetch, bool is_read)
{
    for (uint32_t i = 0; i < fetch->n_views; i++) {
        const size_t bytes = piece_bytes(fetch, fetch->copied);
        if (is_read)
            memcpy(fetch->target + fetch->copied, fetch->views[i], bytes);
        fetch->copied += bytes;
        device_read_end(fetch->device, fetch->views[i]);
    }
    fetch->n_views = 0;
}

enum status device_fetch(struct device *device, const void *source, size_t bytes, void *target)
{
    struct fetch fetch = {.device = device, .source = source, .target = target, .n_bytes = bytes};
    enum status status = STATUS_OK;
    assert(source && target && bytes > 0);
    while (fetch.copied < bytes && status == STATUS_OK) {
        status = enqueue(&fetch);
        if (status == STATUS_OK)
            status = wait_for_all(device);
        take(&fetch, status == STATUS_OK);
    }
    assert(status != STATUS_OK || fetch.copied == bytes);
    return status;
}

enum status device_put(struct device *device, uint8_t *target, const uint8_t *bytes, size_t n_bytes)
{
    uint32_t n_tries = 0;
    for (size_t at = 0; at < n_bytes;) {
        const size_t n = n_bytes - at < DEVICE_PIECE_BYTES ? n_bytes - at : DEVICE_PIECE_BYTES;
        uint8_t *view;
        enum status status = device_write_begin(device, target + at, n, &view);
        if (status == STATUS_QUEUE_FULL) { /* its own writes use the views */
            TRY(device_wait(device, device_record(device, DEVICE_COMPUTE)));
            status = device_write_begin(device, target + at, n, &view);
        }
        if (status == STATUS_QUEUE_FULL && ++n_tries < TRIES_MAX)
            continue; /* copies of KV transfers use them */
        TRY(status);
        memcpy(view, bytes + at, n);
        device_write(device, DEVICE_COMPUTE, target + at, view, n);
        at += n;
    }
    return device_wait(device, device_record(device, DEVICE_COMPUTE));
}
