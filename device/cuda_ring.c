#include "device/cuda_ring.h"

#include "base/log/log.h"
#include "device/cuda_device.h"

#include <assert.h>

#define PAGE_BYTES 4096u

/* ---- creation ---- */

/* The driver guarantees no alignment: small allocations share its pages. memory begins at the first whole page. */
enum status cuda_pin(struct cuda_device *cuda, size_t bytes, void **pinned_out,
                     uint8_t **memory_out, struct error *error)
{
    void *pinned = NULL;
    cuda_code code = cuda->driver.cuMemHostAlloc(&pinned, bytes + PAGE_BYTES, CUDA_HOST_PORTABLE);
    if (code == CUDA_CODE_OUT_OF_MEMORY)
        return error_set(error, STATUS_NO_MEMORY,
                         "the host has no %zu bytes of memory that can be pinned "
                         "(CUDA_ERROR_OUT_OF_MEMORY, 2)",
                         bytes);
    if (code != CUDA_CODE_SUCCESS)
        return cuda_error(&cuda->driver, "cuMemHostAlloc", code, error);
    *memory_out = (uint8_t *)pinned + (PAGE_BYTES - (uintptr_t)pinned % PAGE_BYTES) % PAGE_BYTES;
    *pinned_out = pinned;
    return STATUS_OK;
}

/* memory is in the ring, or allocated for the slot if it has a target. */
static enum status add_slot(struct cuda_device *cuda, struct cuda_ring *ring, uint8_t *memory,
                            size_t bytes, struct error *error)
{
    struct cuda_slot *slot = &ring->slots[ring->n_slots];
    assert(ring->n_slots < CUDA_SLOTS_MAX && bytes % PAGE_BYTES == 0);
    CUDA_TRY(cuda, error, cuEventCreate, &slot->copied, CUDA_EVENT_DISABLE_TIMING);
    slot->memory = memory;
    slot->bytes = bytes;
    slot->state = CUDA_SLOT_FREE;
    ring->n_slots++;
    return STATUS_OK;
}

enum status cuda_ring_create(struct cuda_device *cuda, struct cuda_ring *ring, struct error *error)
{
    const size_t large = DEVICE_VIEW_BYTES_MAX, small = DEVICE_PIECE_BYTES;
    const size_t bytes = CUDA_LARGE_SLOTS * large + CUDA_SMALL_SLOTS * small;
    pthread_mutex_init(&ring->lock, NULL);
    uint8_t *memory = NULL;
    TRY(cuda_pin(cuda, bytes, &ring->pinned, &memory, error));
    uint8_t *at = memory;
    for (uint32_t i = 0; i < CUDA_LARGE_SLOTS; i++, at += large)
        TRY(add_slot(cuda, ring, at, large, error));
    for (uint32_t i = 0; i < CUDA_SMALL_SLOTS; i++, at += small)
        TRY(add_slot(cuda, ring, at, small, error));
    assert(at == memory + bytes);
    return STATUS_OK;
}

/* A failure is logged; it cannot be repaired here. */
static void remove_slot(struct cuda_device *cuda, const struct cuda_slot *slot)
{
    const struct cuda_driver *driver = &cuda->driver;
    (void)cuda_judge(cuda, "cuEventDestroy", driver->cuEventDestroy(slot->copied));
    if (slot->pinned)
        (void)cuda_judge(cuda, "cuMemFreeHost", driver->cuMemFreeHost(slot->pinned));
}

void cuda_ring_destroy(struct cuda_device *cuda, struct cuda_ring *ring)
{
    for (uint32_t i = 0; i < ring->n_slots; i++)
        remove_slot(cuda, &ring->slots[i]);
    if (ring->pinned)
        (void)cuda->driver.cuMemFreeHost(ring->pinned);
    ring->n_slots = 0;
    ring->pinned = NULL;
}

/* ---- twins ---- */

enum status cuda_ring_add_twin(struct cuda_device *cuda, struct cuda_ring *ring,
                               const uint8_t *target, size_t bytes)
{
    uint8_t *memory = NULL;
    void *pinned = NULL;
    struct error error = {""};
    assert(target && bytes > 0);
    pthread_mutex_lock(&ring->lock);
    bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    enum status status = ring->n_slots == CUDA_SLOTS_MAX
                             ? error_set(&error, STATUS_NO_MEMORY, "there are %d arenas already",
                                         (int)CUDA_TWINS_MAX)
                             : cuda_pin(cuda, bytes, &pinned, &memory, &error);
    if (status == STATUS_OK)
        status = add_slot(cuda, ring, memory, bytes, &error);
    struct cuda_slot *slot = status == STATUS_OK ? &ring->slots[ring->n_slots - 1] : NULL;
    if (slot) {
        slot->target = target;
        slot->pinned = pinned;
    } else if (pinned) {
        (void)cuda->driver.cuMemFreeHost(pinned);
    }
    pthread_mutex_unlock(&ring->lock);
    if (status != STATUS_OK)
        log_error("%s: %s", cuda->name, error.text);
    return status == STATUS_OK || status == STATUS_NO_MEMORY ? status : STATUS_DEVICE_LOST;
}

static struct cuda_slot *find_twin(struct cuda_ring *ring, const uint8_t *target)
{
    for (uint32_t i = CUDA_LARGE_SLOTS + CUDA_SMALL_SLOTS; target && i < ring->n_slots; i++)
        if (ring->slots[i].target == target)
            return &ring->slots[i];
    return NULL;
}

void cuda_ring_drop_twin(struct cuda_device *cuda, struct cuda_ring *ring, const uint8_t *target)
{
    pthread_mutex_lock(&ring->lock);
    struct cuda_slot *slot = find_twin(ring, target);
    if (slot) {
        assert(slot->state != CUDA_SLOT_HELD && "what was taken was sent or dropped");
        remove_slot(cuda, slot);
        *slot = ring->slots[--ring->n_slots];
        ring->slots[ring->n_slots] = (struct cuda_slot){0};
    }
    pthread_mutex_unlock(&ring->lock);
}

/* ---- views ---- */

/* QUEUE_FULL: it is in use. */
static enum status try_take(struct cuda_device *cuda, struct cuda_slot *slot)
{
    if (slot->state == CUDA_SLOT_COPYING) {
        cuda_code code = cuda->driver.cuEventQuery(slot->copied);
        if (code != CUDA_CODE_SUCCESS && code != CUDA_CODE_NOT_READY)
            return cuda_judge(cuda, "cuEventQuery", code);
        if (code == CUDA_CODE_SUCCESS)
            slot->state = CUDA_SLOT_FREE;
    }
    if (slot->state != CUDA_SLOT_FREE)
        return STATUS_QUEUE_FULL;
    slot->state = CUDA_SLOT_HELD;
    return STATUS_OK;
}

/* Finds a small or a large slot. */
static enum status take_any(struct cuda_device *cuda, struct cuda_ring *ring, bool is_small,
                            struct cuda_slot **slot_out)
{
    const uint32_t first = is_small ? CUDA_LARGE_SLOTS : 0;
    const uint32_t n = is_small ? CUDA_SMALL_SLOTS : CUDA_LARGE_SLOTS;
    for (uint32_t i = 0; i < n; i++) {
        struct cuda_slot *slot = &ring->slots[first + (ring->next + i) % n];
        enum status status = try_take(cuda, slot);
        if (status == STATUS_QUEUE_FULL)
            continue;
        ring->next += i + 1;
        *slot_out = slot;
        return status;
    }
    return STATUS_QUEUE_FULL;
}

enum status cuda_ring_take(struct cuda_device *cuda, struct cuda_ring *ring, const uint8_t *target,
                           size_t bytes, uint8_t **view_out)
{
    enum status status;
    pthread_mutex_lock(&ring->lock);
    struct cuda_slot *slot = find_twin(ring, target);
    if (slot && bytes <= slot->bytes)
        status = try_take(cuda, slot);
    else
        status = take_any(cuda, ring, bytes <= DEVICE_PIECE_BYTES, &slot);
    if (status == STATUS_OK) {
        assert(bytes <= slot->bytes && "DEVICE_VIEW_BYTES_MAX");
        *view_out = slot->memory;
    }
    pthread_mutex_unlock(&ring->lock);
    return status;
}

enum status cuda_ring_take_result(struct cuda_device *cuda, struct cuda_ring *ring, size_t bytes,
                                  uint8_t **view_out)
{
    enum status status = cuda_ring_take(cuda, ring, NULL, bytes, view_out);
    if (status != STATUS_QUEUE_FULL || bytes > DEVICE_PIECE_BYTES)
        return status;
    struct cuda_slot *slot;
    pthread_mutex_lock(&ring->lock);
    status = take_any(cuda, ring, false, &slot);
    if (status == STATUS_OK)
        *view_out = slot->memory;
    pthread_mutex_unlock(&ring->lock);
    return status;
}

static struct cuda_slot *find(struct cuda_ring *ring, const uint8_t *view)
{
    uint32_t i = 0;
    while (i < ring->n_slots && ring->slots[i].memory != view)
        i++;
    assert(i < ring->n_slots && ring->slots[i].state == CUDA_SLOT_HELD && "a view that was taken");
    return &ring->slots[i];
}

enum status cuda_ring_sent(struct cuda_device *cuda, struct cuda_ring *ring, const uint8_t *view,
                           cuda_stream stream)
{
    pthread_mutex_lock(&ring->lock);
    struct cuda_slot *slot = find(ring, view);
    cuda_code code = cuda->driver.cuEventRecord(slot->copied, stream);
    slot->state = CUDA_SLOT_COPYING;
    pthread_mutex_unlock(&ring->lock);
    return cuda_judge(cuda, "cuEventRecord", code);
}

void cuda_ring_give(struct cuda_ring *ring, const uint8_t *view)
{
    pthread_mutex_lock(&ring->lock);
    find(ring, view)->state = CUDA_SLOT_FREE;
    pthread_mutex_unlock(&ring->lock);
}
