/* What is written, computed, read and digested on a device is what it must be, whatever its queues do in between. */
#include "base/crc32c.h"
#include "device/device_place.h"
#include "device/stage.h"
#include "kernels/cuda/launch.h"
#include "tests/simt/driver/session.h"

#include <stdlib.h>
#include <string.h>

enum { N = 777, BLOCK_BYTES = 4096 };

static struct device_memory allocate(struct device *device, enum device_use use, size_t bytes)
{
    struct device_memory memory;
    CHECK(device_allocate(device, use, bytes, &memory));
    return memory;
}

static void wait_for(struct device *device, enum device_queue queue)
{
    CHECK(device_wait(device, device_record(device, queue)));
}

static uint8_t *begin_write(struct device *device, enum device_queue queue, uint8_t *target,
                            size_t bytes)
{
    uint8_t *view;
    enum status status = device_write_begin(device, target, bytes, &view);
    while (status == STATUS_QUEUE_FULL) {
        wait_for(device, queue);
        status = device_write_begin(device, target, bytes, &view);
    }
    CHECK(status);
    return view;
}

static const uint8_t *read_now(struct device *device, const uint8_t *source, size_t bytes)
{
    const uint8_t *view;
    enum status status = device_read(device, DEVICE_COPY, source, bytes, &view);
    while (status == STATUS_QUEUE_FULL) {
        wait_for(device, DEVICE_COPY);
        status = device_read(device, DEVICE_COPY, source, bytes, &view);
    }
    CHECK(status);
    wait_for(device, DEVICE_COPY);
    return view;
}

static void write_floats(struct device *device, enum device_queue queue, uint8_t *target,
                         float first, float step)
{
    float *view = (float *)(void *)begin_write(device, queue, target, N * sizeof(float));
    for (int i = 0; i < N; i++)
        view[i] = first + step * (float)i;
    device_write(device, queue, target, (uint8_t *)view, N * sizeof(float));
}

static void write_value(struct device *device, enum device_queue queue, uint8_t *target,
                        size_t bytes, uint8_t value)
{
    uint8_t *view = begin_write(device, queue, target, bytes);
    memset(view, value, bytes);
    device_write(device, queue, target, view, bytes);
}

static void add(float *y, const float *x)
{
    const struct add_parameters parameters = {y, x, N};
    const struct device_shape shape = {{(N + 255) / 256, 1, 1}, 256, 0};
    cuda_launch(CUDA_add, &shape, &parameters);
}

/* A chunk: inputs, a kernel, its digest; then by the copy queue behind it to whoever wants it. */
void session_round_trip(struct device *device)
{
    struct device_memory memory = allocate(device, DEVICE_KV, 2 * N * sizeof(float));
    float *y = (float *)(void *)memory.base, *x = y + N;
    const uint8_t *view;
    uint32_t digest = 0;
    write_floats(device, DEVICE_COMPUTE, (uint8_t *)y, 0, 1);
    write_floats(device, DEVICE_COMPUTE, (uint8_t *)x, 0.5f, 0);
    add(y, x);
    device_digest(device, DEVICE_COMPUTE, (const uint8_t *)y, N * sizeof(float), &digest);
    struct device_ticket computed = device_record(device, DEVICE_COMPUTE);
    device_after(device, DEVICE_COPY, computed);
    CHECK(device_read(device, DEVICE_COPY, (const uint8_t *)y, N * sizeof(float), &view));
    wait_for(device, DEVICE_COPY);
    for (int i = 0; i < N; i++)
        MUST(((const float *)(const void *)view)[i] == (float)i + 0.5f);
    CHECK(device_wait(device, computed));
    MUST(digest == crc32c(0, view, N * sizeof(float)));
    device_read_end(device, view);
    device_free(device, &memory);
}

/* The copy queue writes what the compute queue reads, and the other way round, many times over, waited for at the end alone. */
void session_order(struct device *device)
{
    struct device_memory a = allocate(device, DEVICE_KV, N * sizeof(float));
    struct device_memory b = allocate(device, DEVICE_KV, N * sizeof(float));
    struct device_ticket read_before = {0};
    const uint8_t *views[20];
    write_floats(device, DEVICE_COMPUTE, a.base, 0, 0);
    for (int step = 0; step < 20; step++) {
        device_after(device, DEVICE_COPY, device_record(device, DEVICE_COMPUTE));
        write_floats(device, DEVICE_COPY, b.base, 1, 0);
        device_after(device, DEVICE_COMPUTE, device_record(device, DEVICE_COPY));
        add((float *)(void *)a.base, (const float *)(const void *)b.base);
        device_after(device, DEVICE_COPY, device_record(device, DEVICE_COMPUTE));
        CHECK(device_read(device, DEVICE_COPY, a.base, N * sizeof(float), &views[step]));
        read_before = device_record(device, DEVICE_COPY);
        device_after(device, DEVICE_COMPUTE, read_before);
    }
    CHECK(device_wait(device, read_before));
    for (int step = 0; step < 20; step++) {
        for (int i = 0; i < N; i++)
            MUST(((const float *)(const void *)views[step])[i] == (float)(step + 1));
        device_read_end(device, views[step]);
    }
    wait_for(device, DEVICE_COMPUTE);
    device_free(device, &b);
    device_free(device, &a);
}

/* More records than there are events: what is forgotten is done when a later one is. A poll never says more than what is. */
void session_records(struct device *device)
{
    enum { RECORDS = 200 };
    struct device_memory memory = allocate(device, DEVICE_KV, BLOCK_BYTES);
    struct device_ticket tickets[RECORDS];
    for (int i = 0; i < RECORDS; i++) {
        write_value(device, DEVICE_COPY, memory.base, BLOCK_BYTES, (uint8_t)i);
        tickets[i] = device_record(device, DEVICE_COPY);
        if (i % 3 == 0)
            device_after(device, DEVICE_COMPUTE, tickets[i / 2]);
    }
    for (int i = RECORDS - 1; i >= 0; i -= 7)
        CHECK(device_wait(device, tickets[i]));
    for (int i = 0; i < RECORDS; i++)
        MUST(device_poll(device, tickets[i]) == STATUS_OK);
    MUST(device_poll(device, (struct device_ticket){0}) == STATUS_OK);
    const uint8_t *view = read_now(device, memory.base, BLOCK_BYTES);
    MUST(view[0] == (uint8_t)(RECORDS - 1) && view[BLOCK_BYTES - 1] == view[0]);
    device_read_end(device, view);
    wait_for(device, DEVICE_COMPUTE);
    device_free(device, &memory);
}

/* What was computed is read by views that no copy gets. */
static void read_result(struct device *device, const struct device_memory *memory)
{
    enum { RESULTS = 4 };
    const uint8_t *views[RESULTS];
    for (int i = 0; i < RESULTS; i++)
        CHECK(device_read(device, DEVICE_COMPUTE, memory->base, 100, &views[i]));
    wait_for(device, DEVICE_COMPUTE);
    for (int i = 0; i < RESULTS; i++)
        device_read_end(device, views[i]);
}

/* As many are lent as there are, then QUEUE_FULL and nothing enqueued; one that comes back is lent again. */
void session_views(struct device *device)
{
    enum { MOST = 200 };
    static const size_t SIZES[] = {100, DEVICE_PIECE_BYTES, DEVICE_PIECE_BYTES + 1,
                                   DEVICE_VIEW_BYTES_MAX};
    struct device_memory memory = allocate(device, DEVICE_KV, DEVICE_VIEW_BYTES_MAX);
    for (size_t s = 0; s < sizeof SIZES / sizeof *SIZES; s++) {
        uint8_t *views[MOST], *again;
        const uint8_t *read;
        size_t n = 0;
        while (n < MOST &&
               device_write_begin(device, memory.base, SIZES[s], &views[n]) == STATUS_OK) {
            MUST((uintptr_t)views[n] % 4096 == 0);
            views[n][0] = (uint8_t)n;
            views[n][SIZES[s] - 1] = (uint8_t)n;
            n++;
        }
        MUST(n >= 4 && n < MOST);
        MUST(device_write_begin(device, memory.base, SIZES[s], &again) == STATUS_QUEUE_FULL);
        MUST(device_read(device, DEVICE_COPY, memory.base, SIZES[s], &read) == STATUS_QUEUE_FULL);
        MUST(!device_is_lost(device));
        if (SIZES[s] <= DEVICE_PIECE_BYTES) {
            MUST(n == device_n_views(device));
            read_result(device, &memory);
        }
        device_write_drop(device, views[n - 1]);
        CHECK(device_write_begin(device, memory.base, SIZES[s], &again));
        device_write_drop(device, again);
        for (size_t i = 0; i + 1 < n; i++)
            device_write(device, DEVICE_COPY, memory.base, views[i], SIZES[s]);
        read = read_now(device, memory.base, SIZES[s]);
        MUST(read[0] == (uint8_t)(n - 2) && read[SIZES[s] - 1] == read[0]);
        device_read_end(device, read);
    }
    device_free(device, &memory);
}

/* Steps laid out without a wait between them, longer than a view; each kernel sees its own. */
void session_stage(struct device *device)
{
    enum { STEPS = 12 };
    const size_t bytes = DEVICE_VIEW_BYTES_MAX + 12345;
    struct device_memory sums = allocate(device, DEVICE_ACTIVATIONS, STEPS * N * sizeof(float));
    struct stage *stage;
    const uint8_t *view;
    CHECK(stage_create(device, DEVICE_COMPUTE, bytes, &stage));
    stage_touch(stage, NULL);
    for (int step = 0; step < STEPS; step++) {
        size_t taken = step % 3 == 0 ? bytes : N * sizeof(float);
        uint8_t *arena;
        const uint8_t *sent;
        CHECK(stage_take(stage, taken, &arena));
        if (step % 4 == 1) {
            stage_drop(stage);
            CHECK(stage_take(stage, taken, &arena));
        }
        for (int i = 0; i < N; i++)
            ((float *)(void *)arena)[i] = (float)(step + i);
        arena[taken - 1] |= 0;
        CHECK(stage_send(stage, &sent));
        add((float *)(void *)sums.base + step * N, (const float *)(const void *)sent);
        stage_keep(stage, device_record(device, DEVICE_COMPUTE));
    }
    CHECK(device_read(device, DEVICE_COMPUTE, sums.base, STEPS * N * sizeof(float), &view));
    wait_for(device, DEVICE_COMPUTE);
    for (int step = 0; step < STEPS; step++)
        for (int i = 0; i < N; i++)
            MUST(((const float *)(const void *)view)[step * N + i] == (float)(step + i));
    device_read_end(device, view);
    stage_destroy(stage);
    for (int i = 0; i < 20; i++) { /* what an arena had goes with it, once what reads it is over */
        uint8_t *arena;
        const uint8_t *sent;
        CHECK(stage_create(device, DEVICE_COMPUTE, N * sizeof(float), &stage));
        CHECK(stage_take(stage, N * sizeof(float), &arena));
        memset(arena, 0, N * sizeof(float));
        CHECK(stage_send(stage, &sent));
        add((float *)(void *)sums.base, (const float *)(const void *)sent);
        stage_keep(stage, device_record(device, DEVICE_COMPUTE));
        stage_destroy(stage);
    }
    wait_for(device, DEVICE_COMPUTE);
    device_free(device, &sums);
}

/* y += x of the arena, twice; parameters that are changed behind it are nobody's. */
static struct device_graph *capture_adds(struct device *device, float *y, const uint8_t *sent)
{
    struct device_graph *graph;
    struct add_parameters parameters = {y, (const float *)(const void *)sent, N};
    const struct device_shape shape = {{(N + 255) / 256, 1, 1}, 256, 0};
    device_capture_begin(device);
    cuda_launch(CUDA_add, &shape, &parameters);
    parameters.n = N / 2;
    cuda_launch(CUDA_add, &shape, &parameters);
    CHECK(device_capture_end(device, &graph));
    parameters = (struct add_parameters){0};
    return graph;
}

/* A graph of each arena, replayed without a wait of the host in between, among launches; nothing runs when it is captured. */
void session_graphs(struct device *device)
{
    enum { STEPS = 9 };
    const size_t bytes = N * sizeof(float);
    struct device_memory sums = allocate(device, DEVICE_ACTIVATIONS, bytes);
    struct device_graph *graphs[STAGE_ARENAS];
    const uint8_t *of_graph[STAGE_ARENAS], *view, *sent;
    struct stage *stage;
    float *y = (float *)(void *)sums.base, first = 0, second = 0;
    uint8_t *arena;
    CHECK(stage_create(device, DEVICE_COMPUTE, bytes, &stage));
    for (int i = 0; i < STAGE_ARENAS + STEPS; i++) {
        CHECK(stage_take(stage, bytes, &arena));
        for (int k = 0; k < N; k++)
            ((float *)(void *)arena)[k] = (float)(i + k % 5);
        CHECK(stage_send(stage, &sent));
        if (i < STAGE_ARENAS) {
            of_graph[i] = sent;
            graphs[i] = capture_adds(device, y, sent);
        } else {
            MUST(sent == of_graph[i % STAGE_ARENAS]);
            device_replay(device, graphs[i % STAGE_ARENAS]);
            first += (float)i;
        }
        if (i % 4 == 3) {
            add(y, (const float *)(const void *)sent);
            second += (float)i;
        }
        stage_keep(stage, device_record(device, DEVICE_COMPUTE));
    }
    device_after(device, DEVICE_COPY, device_record(device, DEVICE_COMPUTE));
    CHECK(device_read(device, DEVICE_COPY, sums.base, bytes, &view));
    wait_for(device, DEVICE_COPY);
    for (int k = 0; k < N; k++) {
        const float n = k < N / 2 ? 2 : 1, of_k = (float)(k % 5);
        MUST(((const float *)(const void *)view)[k] ==
             n * (first + STEPS * of_k) + second + 2 * of_k);
    }
    device_read_end(device, view);
    for (int i = 0; i < STAGE_ARENAS; i++)
        device_graph_destroy(device, graphs[i]);
    MUST(device_bytes(device, DEVICE_WORKSPACE) == 0);
    stage_destroy(stage);
    device_free(device, &sums);
}

static void expect_placed(struct device *device, const struct device_matrix *matrix,
                          const struct device_slice *slice)
{
    struct device_placed placed;
    struct error error = {""};
    const size_t row = slice->n_columns * matrix->element_bytes;
    CHECK(device_place(device, DEVICE_COPY, matrix, slice, &error, &placed));
    MUST(placed.data == placed.memory.base && placed.memory.bytes == slice->n_rows * row);
    for (uint64_t r = 0; r < slice->n_rows; r++) {
        const uint8_t *wanted = (const uint8_t *)matrix->data +
                                ((slice->first_row + r) * matrix->n_columns + slice->first_column) *
                                    matrix->element_bytes;
        for (size_t at = 0, n; at < row; at += n) {
            n = row - at < DEVICE_VIEW_BYTES_MAX ? row - at : DEVICE_VIEW_BYTES_MAX;
            const uint8_t *view = read_now(device, placed.memory.base + r * row + at, n);
            MUST(memcmp(view, wanted + at, n) == 0);
            device_read_end(device, view);
        }
    }
    device_free(device, &placed.memory);
}

/* Pieces that begin and end within rows, more of them than there are views. */
void session_place(struct device *device)
{
    enum { ROWS = 3, COLUMNS = 5000001 };
    static const struct device_slice SLICES[] = {
        {0, ROWS, 0, COLUMNS}, {0, ROWS, 7, COLUMNS - 9}, {1, 1, 0, 3}};
    uint8_t *data = malloc(2ull * ROWS * COLUMNS + 1);
    MUST(data != NULL);
    for (size_t i = 0; i <= 2ull * ROWS * COLUMNS; i++)
        data[i] = (uint8_t)(i * 131 + (i >> 8) * 7);
    const struct device_matrix matrix = {data + 1, ROWS, COLUMNS, 2};
    for (size_t i = 0; i < sizeof SLICES / sizeof *SLICES; i++)
        expect_placed(device, &matrix, &SLICES[i]);
    free(data);
}

/* More than are under way at a time, of every length, each what its bytes were when its turn came. */
void session_digests(struct device *device)
{
    enum { DIGESTS = 300 };
    struct device_memory memory = allocate(device, DEVICE_KV, 100000);
    uint32_t digests[DIGESTS], whole = 0;
    uint8_t bytes[BLOCK_BYTES];
    for (int i = 0; i < DIGESTS; i++) {
        size_t n = (size_t)(1 + i * 37 % BLOCK_BYTES);
        write_value(device, DEVICE_COPY, memory.base, n, (uint8_t)i);
        device_digest(device, DEVICE_COPY, memory.base, n, &digests[i]);
    }
    write_value(device, DEVICE_COPY, memory.base, memory.bytes, 9);
    device_digest(device, DEVICE_COPY, memory.base, memory.bytes, &whole);
    wait_for(device, DEVICE_COPY);
    for (int i = 0; i < DIGESTS; i++) {
        size_t n = (size_t)(1 + i * 37 % BLOCK_BYTES);
        memset(bytes, i, sizeof bytes);
        MUST(digests[i] == crc32c(0, bytes, n));
    }
    uint32_t expected = 0;
    memset(bytes, 9, sizeof bytes);
    for (size_t at = 0; at < memory.bytes; at += sizeof bytes)
        expected = crc32c(expected, bytes,
                          memory.bytes - at < sizeof bytes ? memory.bytes - at : sizeof bytes);
    MUST(whole == expected);
    device_free(device, &memory);
}

/* What is taken is zero; more than there is comes to a status, and the device goes on. */
void session_memory(struct device *device)
{
    struct device_memory memory = allocate(device, DEVICE_KV, 10001), more, foreign;
    const uint8_t *view;
    uint8_t bytes[16];
    const struct device_traits traits = device_get_traits(device);
    MUST(traits.architecture >= 80 && traits.n_processors > 0 && traits.shared_bytes_max > 48000);
    MUST(!device_reads_host(device));
    view = read_now(device, memory.base, memory.bytes);
    for (size_t i = 0; i < memory.bytes; i++)
        MUST(view[i] == 0);
    device_read_end(device, view);
    MUST(device_allocate(device, DEVICE_KV, traits.memory_bytes + 1, &more) == STATUS_NO_MEMORY);
    MUST(device_wrap(device, DEVICE_KV, bytes, sizeof bytes, &foreign) == STATUS_UNSUPPORTED);
    MUST(!device_is_lost(device) && device_bytes(device, DEVICE_KV) == 10001);
    device_touch(device, &memory, NULL);
    device_free(device, &memory);
    MUST(device_bytes(device, DEVICE_KV) == 0);
}
