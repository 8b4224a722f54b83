/* The engine's thread computes, the transfer's copies behind it, a third looks at both: each has its queue, all may poll. */
#include "kernels/cuda/launch.h"
#include "tests/simt/driver/session.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { STEPS = 40, N = 256 };

struct work {
    struct device *device;
    struct device_memory memory;       /* [STEPS + 1][N]: a step adds a row to the one behind it */
    _Atomic uint64_t computed, copied; /* tickets' sequences */
    _Atomic uint32_t n_wrong;
};

static void *compute(void *arg)
{
    struct work *work = arg;
    float *rows = (float *)(void *)work->memory.base;
    device_bind(work->device);
    for (int i = 0; i < STEPS; i++) {
        const struct add_parameters parameters = {rows + (i + 1) * N, rows + i * N, N};
        const struct device_shape shape = {{1, 1, 1}, 256, 0};
        cuda_launch(CUDA_add, &shape, &parameters);
        atomic_store(&work->computed, device_record(work->device, DEVICE_COMPUTE).sequence);
    }
    return NULL;
}

static void *copy(void *arg)
{
    struct work *work = arg;
    for (int i = 1; i <= STEPS; i++) {
        const uint8_t *view;
        uint64_t sequence;
        while ((sequence = atomic_load(&work->computed)) < (uint64_t)i + 1)
            sched_yield(); /* the first record is of what main wrote */
        device_after(work->device, DEVICE_COPY, (struct device_ticket){DEVICE_COMPUTE, sequence});
        CHECK(device_read(work->device, DEVICE_COPY,
                          work->memory.base + (size_t)i * N * sizeof(float), N * sizeof(float),
                          &view));
        struct device_ticket ticket = device_record(work->device, DEVICE_COPY);
        atomic_store(&work->copied, ticket.sequence);
        CHECK(device_wait(work->device, ticket));
        for (int k = 0; k < N; k++)
            atomic_fetch_add(&work->n_wrong, ((const float *)(const void *)view)[k] != (float)k);
        device_read_end(work->device, view);
    }
    return NULL;
}

static void *look(void *arg)
{
    struct work *work = arg;
    for (uint64_t sequence = 0; sequence < STEPS;) {
        sequence = atomic_load(&work->copied);
        if (sequence > 0)
            CHECK(device_wait(work->device, (struct device_ticket){DEVICE_COPY, sequence}));
        uint64_t computed = atomic_load(&work->computed);
        enum status status = device_poll(work->device,
                                         (struct device_ticket){DEVICE_COMPUTE, computed});
        MUST(status == STATUS_OK || status == STATUS_NOT_READY);
        sched_yield();
    }
    return NULL;
}

void session_threads(struct device *device)
{
    static void *(*const RUNS[])(void *) = {compute, copy, look};
    struct work work = {.device = device};
    pthread_t threads[3];
    uint8_t *view;
    CHECK(device_allocate(device, DEVICE_KV, (STEPS + 1) * N * sizeof(float), &work.memory));
    CHECK(device_write_begin(device, work.memory.base, N * sizeof(float), &view));
    for (int i = 0; i < N; i++)
        ((float *)(void *)view)[i] = (float)i;
    device_write(device, DEVICE_COMPUTE, work.memory.base, view, N * sizeof(float));
    struct device_ticket written = device_record(device, DEVICE_COMPUTE);
    atomic_store(&work.computed, written.sequence);
    for (int i = 0; i < 3; i++)
        MUST(pthread_create(&threads[i], NULL, RUNS[i], &work) == 0);
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
    CHECK(device_wait(device, device_record(device, DEVICE_COMPUTE)));
    CHECK(device_wait(device, device_record(device, DEVICE_COPY)));
    MUST(atomic_load(&work.n_wrong) == 0);
    device_free(device, &work.memory);
}
