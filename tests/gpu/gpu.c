#include "tests/gpu/gpu.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (1u << 20)

void must(enum status status, const struct error *error, const char *what)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "%s: %s%s%s\n", what, status_text(status), error && error->text[0] ? ": " : "",
            error ? error->text : "");
    exit(1);
}

void gpu_open(const char *name, bool is_toy, struct gpu *gpu_out)
{
    struct gpu gpu = {.is_toy = is_toy};
    struct error error = {""};
    must(device_open(name, &gpu.device, &error), &error, name);
    device_bind(gpu.device);
    gpu.traits = device_get_traits(gpu.device);
    *gpu_out = gpu;
}

void gpu_load(struct gpu *gpu, const struct device_image *image)
{
    struct error error = {""};
    must(device_load(gpu->device, image, &error), &error, "load");
}

void gpu_close(struct gpu *gpu)
{
    device_bind(NULL);
    device_close(gpu->device);
}

/* ---- memory ---- */

static void wait(struct gpu *gpu, enum device_queue queue)
{
    must(device_wait(gpu->device, device_record(gpu->device, queue)), NULL, "wait");
}

/* A piece may be larger than what the device stages at a time: it says QUEUE_FULL while others are under way. */
static uint8_t *begin_write(struct gpu *gpu, uint8_t *target, size_t bytes)
{
    uint8_t *view = NULL;
    enum status status = device_write_begin(gpu->device, target, bytes, &view);
    if (status == STATUS_QUEUE_FULL) {
        wait(gpu, DEVICE_COMPUTE);
        status = device_write_begin(gpu->device, target, bytes, &view);
    }
    must(status, NULL, "write");
    return view;
}

void gpu_write(struct gpu *gpu, uint8_t *target, const void *source, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        uint8_t *view = begin_write(gpu, target + at, n);
        memcpy(view, (const uint8_t *)source + at, n);
        device_write(gpu->device, DEVICE_COMPUTE, target + at, view, n);
    }
    wait(gpu, DEVICE_COMPUTE);
}

void gpu_read(struct gpu *gpu, const uint8_t *source, void *target, size_t bytes)
{
    for (size_t at = 0, n; at < bytes; at += n) {
        const uint8_t *view;
        n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        must(device_read(gpu->device, DEVICE_COMPUTE, source + at, n, &view), NULL, "read");
        wait(gpu, DEVICE_COMPUTE);
        memcpy((uint8_t *)target + at, view, n);
        device_read_end(gpu->device, view);
    }
}

/* Sum of four uniform numbers: near enough to normal for what products and clocks make of it. */
static float draw(uint64_t *state)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        *state = *state * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(*state >> 40) / (float)(1u << 24) - 0.5f;
    }
    return sum * 1.7320508f;
}

struct device_memory gpu_random(struct gpu *gpu, enum dtype dtype, uint64_t n)
{
    struct device_memory memory;
    size_t bytes = (size_t)n * dtype_bytes(dtype);
    size_t piece = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    uint8_t *made = malloc(piece);
    uint64_t state = 11;
    assert(made && n > 0);
    for (size_t i = 0; i < piece / dtype_bytes(dtype); i++)
        dtype_store(dtype, made, i, draw(&state) * (dtype_is_8bit(dtype) ? 32.0f : 1.0f));
    must(device_allocate(gpu->device, DEVICE_WORKSPACE, bytes, &memory), NULL, "allocate");
    for (size_t at = 0; at < bytes; at += piece)
        gpu_write(gpu, memory.base + at, made, bytes - at < piece ? bytes - at : piece);
    free(made);
    return memory;
}

/* ---- time ---- */

enum { ROUNDS = 7, RUNS_MAX = 2000, GRAPH_RUNS = 8 };
#define ROUND_US 20000.0
#define WARM_NS  500000000ull /* a GPU that was idle takes so long to come to its clocks */

/* Runs that are enqueued at a time: as a graph, so that the device does not wait for the host, where it captures. */
struct batch {
    struct gpu *gpu;
    gpu_enqueue enqueue;
    void *arg;
    struct device_graph *graph; /* NULL: none */
    uint32_t n_runs;            /* of the graph */
    uint32_t next_run;
};

static void capture(struct batch *batch)
{
    struct device *device = batch->gpu->device;
    batch->n_runs = 1;
    if (batch->gpu->is_toy || !device_captures(device))
        return;
    device_capture_begin(device);
    for (uint32_t i = 0; i < GRAPH_RUNS; i++)
        batch->enqueue(batch->arg, i);
    must(device_capture_end(device, &batch->graph), NULL, "capture");
    batch->n_runs = GRAPH_RUNS;
}

/* Microseconds of a run. */
static double round_us(struct batch *batch, uint32_t n)
{
    uint64_t start_ns = clock_now_ns();
    for (uint32_t i = 0; i < n; i++) {
        if (batch->graph)
            device_replay(batch->gpu->device, batch->graph);
        else
            batch->enqueue(batch->arg, batch->next_run++);
    }
    wait(batch->gpu, DEVICE_COMPUTE);
    return (double)(clock_now_ns() - start_ns) / (double)NS_PER_US / n / batch->n_runs;
}

static void warm_up(struct batch *batch)
{
    const uint64_t ends_ns = clock_now_ns() + WARM_NS;
    while (!batch->gpu->is_warm && clock_now_ns() < ends_ns)
        (void)round_us(batch, 1);
    batch->gpu->is_warm = true;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gpu_time_us(struct gpu *gpu, gpu_enqueue enqueue, void *arg)
{
    struct batch batch = {.gpu = gpu, .enqueue = enqueue, .arg = arg};
    double rounds[ROUNDS];
    capture(&batch);
    double once = round_us(&batch, 1);
    if (gpu->is_toy)
        return once;
    warm_up(&batch);
    once = round_us(&batch, 3) * batch.n_runs;
    uint32_t n = once * RUNS_MAX < ROUND_US ? RUNS_MAX : (uint32_t)(ROUND_US / once) + 1;
    for (uint32_t i = 0; i < ROUNDS; i++)
        rounds[i] = round_us(&batch, n);
    device_graph_destroy(gpu->device, batch.graph);
    qsort(rounds, ROUNDS, sizeof *rounds, compare);
    return rounds[ROUNDS / 2];
}

bool gpu_measures(const struct gpu *gpu, const char *name)
{
    return !gpu->only || strstr(name, gpu->only);
}
