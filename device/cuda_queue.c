#include "device/cuda_device.h"

#include <assert.h>

enum status cuda_queue_create(struct cuda_device *cuda, struct cuda_queue *queue,
                              struct error *error)
{
    pthread_mutex_init(&queue->lock, NULL);
    CUDA_TRY(cuda, error, cuStreamCreate, &queue->stream, CUDA_STREAM_NON_BLOCKING);
    for (uint32_t i = 0; i < CUDA_EVENTS; i++)
        CUDA_TRY(cuda, error, cuEventCreate, &queue->events[i], CUDA_EVENT_DISABLE_TIMING);
    return cuda_digests_create(cuda, &queue->digests, error);
}

void cuda_queue_destroy(struct cuda_device *cuda, struct cuda_queue *queue)
{
    if (queue->stream)
        (void)cuda->driver.cuStreamSynchronize(queue->stream);
    cuda_digests_destroy(cuda, &queue->digests);
    for (uint32_t i = 0; i < CUDA_EVENTS; i++)
        if (queue->events[i])
            (void)cuda->driver.cuEventDestroy(queue->events[i]);
    if (queue->stream)
        (void)cuda->driver.cuStreamDestroy(queue->stream);
}

static cuda_event event_of(const struct cuda_queue *queue, uint64_t sequence)
{
    return queue->events[sequence % CUDA_EVENTS];
}

/* The first of the records from sequence to n that still has its event. */
static uint64_t known_from(uint64_t sequence, uint64_t n)
{
    uint64_t oldest = n > CUDA_EVENTS ? n - CUDA_EVENTS + 1 : 1;
    assert(sequence >= 1 && sequence <= n);
    return sequence > oldest ? sequence : oldest;
}

enum status cuda_record(struct device *device, enum device_queue number, uint64_t sequence)
{
    struct cuda_device *cuda = cuda_of(device);
    struct cuda_queue *queue = &cuda->queues[number];
    assert(sequence == atomic_load(&queue->n_recorded) + 1);
    TRY(cuda_make_current(cuda));
    CUDA_DO(cuda, cuEventRecord, event_of(queue, sequence), queue->stream);
    /* After the call: a reader of this number finds the event of that record, or of a later one. */
    atomic_store_explicit(&queue->n_recorded, sequence, memory_order_release);
    return STATUS_OK;
}

enum status cuda_after(struct device *device, enum device_queue number, struct device_ticket ticket)
{
    struct cuda_device *cuda = cuda_of(device);
    struct cuda_queue *other = &cuda->queues[ticket.queue];
    if (atomic_load_explicit(&other->n_completed, memory_order_acquire) >= ticket.sequence)
        return STATUS_OK; /* the host knows that it is done */
    uint64_t n = atomic_load_explicit(&other->n_recorded, memory_order_acquire);
    TRY(cuda_make_current(cuda));
    CUDA_DO(cuda, cuStreamWaitEvent, cuda->queues[number].stream,
            event_of(other, known_from(ticket.sequence, n)), 0);
    return STATUS_OK;
}

/* Searches in order, and stops at the first record that is not done. */
static cuda_code look(struct cuda_device *cuda, const struct cuda_queue *queue, uint64_t *done)
{
    uint64_t n = atomic_load_explicit(&queue->n_recorded, memory_order_acquire);
    while (*done < n) {
        uint64_t next = known_from(*done + 1, n);
        cuda_code code = cuda->driver.cuEventQuery(event_of(queue, next));
        if (code != CUDA_CODE_SUCCESS)
            return code;
        *done = next;
    }
    return CUDA_CODE_SUCCESS;
}

enum status cuda_completed(struct device *device, enum device_queue number, uint64_t *sequence_out)
{
    struct cuda_device *cuda = cuda_of(device);
    struct cuda_queue *queue = &cuda->queues[number];
    TRY(cuda_make_current(cuda));
    pthread_mutex_lock(&queue->lock);
    uint64_t done = atomic_load_explicit(&queue->n_completed, memory_order_relaxed);
    cuda_code code = look(cuda, queue, &done);
    cuda_digests_deliver(&queue->digests, done);
    atomic_store_explicit(&queue->n_completed, done, memory_order_release);
    pthread_mutex_unlock(&queue->lock);
    *sequence_out = done;
    return code == CUDA_CODE_NOT_READY ? STATUS_OK : cuda_judge(cuda, "cuEventQuery", code);
}
