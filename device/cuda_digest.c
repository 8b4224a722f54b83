#include "base/crc32c.h"
#include "device/cuda_device.h"
#include "device/device_digest.h"

#include <assert.h>
#include <stdio.h>

enum status cuda_digests_create(struct cuda_device *cuda, struct cuda_digests *digests,
                                struct error *error)
{
    const size_t bytes = CUDA_DIGESTS * sizeof(uint32_t);
    const size_t partials = CUDA_DIGEST_PIECES * sizeof(uint32_t);
    uint8_t *copies = NULL;
    cuda_code code = cuda->driver.cuMemAlloc(&digests->words, bytes + partials);
    if (code != CUDA_CODE_SUCCESS) {
        char what[64];
        snprintf(what, sizeof what, "%zu bytes for digests", bytes + partials);
        return cuda_fail(cuda, what, "cuMemAlloc", code, error);
    }
    TRY(cuda_pin(cuda, bytes, &digests->pinned, &copies, error));
    digests->copies = (uint32_t *)(void *)copies;
    return STATUS_OK;
}

void cuda_digests_destroy(struct cuda_device *cuda, struct cuda_digests *digests)
{
    if (digests->pinned)
        (void)cuda->driver.cuMemFreeHost(digests->pinned);
    if (digests->words)
        (void)cuda->driver.cuMemFree(digests->words);
}

void cuda_digests_deliver(struct cuda_digests *digests, uint64_t n_completed)
{
    for (; digests->begin < digests->end; digests->begin++) {
        uint64_t i = digests->begin % CUDA_DIGESTS;
        if (digests->waiting[i].sequence > n_completed)
            return;
        *digests->waiting[i].out = digests->copies[i];
    }
}

/* Computes the digest on the host, one view at a time. */
static enum status digest_on_host(struct device *device, enum device_queue queue,
                                  const uint8_t *bytes, size_t n_bytes, uint32_t *digest_out)
{
    uint32_t digest = 0;
    for (size_t at = 0, n; at < n_bytes; at += n) {
        const uint8_t *view;
        n = n_bytes - at < DEVICE_VIEW_BYTES_MAX ? n_bytes - at : DEVICE_VIEW_BYTES_MAX;
        enum status status = device_read(device, queue, bytes + at, n, &view);
        while (status == STATUS_QUEUE_FULL) {
            TRY(device_wait(device, device_record(device, queue)));
            status = device_read(device, queue, bytes + at, n, &view);
        }
        TRY(status);
        status = device_wait(device, device_record(device, queue));
        if (status == STATUS_OK)
            digest = crc32c(digest, view, n);
        device_read_end(device, view);
        TRY(status);
    }
    *digest_out = digest;
    return STATUS_OK;
}

static enum status launch(struct cuda_device *cuda, cuda_stream stream,
                          const struct device_digest_parameters *parameters, uint32_t *copy)
{
    struct device_shape shape = {
        .grid = {parameters->n_pieces, 1, 1},
        .threads = DEVICE_DIGEST_THREADS,
        .shared_bytes = DEVICE_DIGEST_SHARED_BYTES,
    };
    TRY(cuda_launch_on(cuda, stream, cuda->digest_kernel, &shape, parameters));
    shape.grid[0] = 1;
    TRY(cuda_launch_on(cuda, stream, cuda->digest_combine, &shape, parameters));
    CUDA_DO(cuda, cuMemcpyDtoHAsync, copy, (uintptr_t)parameters->out, sizeof *copy, stream);
    return STATUS_OK;
}

/* Waits for a free place in the ring. */
static enum status make_room(struct device *device, enum device_queue number)
{
    struct cuda_queue *queue = &cuda_of(device)->queues[number];
    pthread_mutex_lock(&queue->lock);
    bool is_full = queue->digests.end - queue->digests.begin == CUDA_DIGESTS;
    pthread_mutex_unlock(&queue->lock);
    return is_full ? device_wait(device, device_record(device, number)) : STATUS_OK;
}

enum status cuda_digest(struct device *device, enum device_queue number, const uint8_t *bytes,
                        size_t n_bytes, uint32_t *digest_out)
{
    struct cuda_device *cuda = cuda_of(device);
    struct cuda_queue *queue = &cuda->queues[number];
    struct cuda_digests *digests = &queue->digests;
    const uint64_t n_pieces = (n_bytes + DEVICE_DIGEST_PIECE_BYTES - 1) / DEVICE_DIGEST_PIECE_BYTES;
    if (!cuda->has_digest || n_pieces > CUDA_DIGEST_PIECES)
        return digest_on_host(device, number, bytes, n_bytes, digest_out);
    TRY(cuda_make_current(cuda));
    TRY(make_room(device, number));
    pthread_mutex_lock(&queue->lock);
    uint64_t i = digests->end % CUDA_DIGESTS;
    const struct device_digest_parameters parameters = {
        .bytes = bytes,
        .n_bytes = n_bytes,
        .partials = (uint32_t *)(uintptr_t)digests->words + CUDA_DIGESTS,
        .out = (uint32_t *)(uintptr_t)digests->words + i,
        .n_pieces = (uint32_t)n_pieces,
    };
    assert(digests->end - digests->begin < CUDA_DIGESTS && "only the queue's owner adds to them");
    enum status status = launch(cuda, queue->stream, &parameters, &digests->copies[i]);
    if (status == STATUS_OK) {
        digests->waiting[i] = (struct cuda_digest){.out = digest_out,
                                                   .sequence = atomic_load(&queue->n_recorded) + 1};
        digests->end++;
    }
    pthread_mutex_unlock(&queue->lock);
    return status;
}
