#include "tests/bench/machine.h"

#include "base/clock.h"

#include <ctype.h>
#include <immintrin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CALLS_MIN    5
#define CALLS_NS     (600 * NS_PER_MS)
#define CALLS_NS_MAX (4 * NS_PER_S)    /* then one call is enough */
#define STREAM_CHUNK ((size_t)4 << 20) /* of the stream, in one call */

void must(enum status status)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "%s\n", status_text(status));
    exit(1);
}

void *allocate(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "no memory for %zu MiB\n", bytes >> 20);
        exit(1);
    }
    madvise(memory, bytes, MADV_HUGEPAGE);
    return memory;
}

static uint64_t random_state = 88172645463325252u;

uint32_t random_next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 32);
}

static void fill(enum dtype dtype, void *array, size_t n, float scale)
{
    for (size_t i = 0; i < n; i++)
        dtype_store(dtype, array, i,
                    scale * (float)(int32_t)random_next() * (1.0f / 2147483648.0f));
}

void *filled(enum dtype dtype, size_t n, float scale)
{
    void *array = allocate(n * dtype_bytes(dtype));
    size_t part = n < 65536 ? n : 65536; /* random enough, and quick for large ones */
    fill(dtype, array, part, scale);
    for (size_t i = part; i < n; i += part)
        memcpy((char *)array + i * dtype_bytes(dtype), array,
               (n - i < part ? n - i : part) * dtype_bytes(dtype));
    return array;
}

double best_seconds(bench_body body, void *arg)
{
    uint64_t best_ns = UINT64_MAX;
    body(arg);
    uint64_t start_ns = clock_now_ns();
    uint64_t now_ns = start_ns;
    for (int call = 0; now_ns - start_ns < (call < CALLS_MIN ? CALLS_NS_MAX : CALLS_NS); call++) {
        uint64_t call_ns = now_ns;
        body(arg);
        now_ns = clock_now_ns();
        best_ns = now_ns - call_ns < best_ns ? now_ns - call_ns : best_ns;
    }
    return (double)best_ns / 1e9;
}

void print_figure(const struct bench *bench, const struct figure *figure)
{
    const char *format =
        bench->is_json ? "{\"section\": \"%s\", \"what\": \"%s\", \"us\": %.2f, \"value\": %.2f, "
                         "\"unit\": \"%s\", \"of_peak\": %.4f"
                       : "%-8s %-44s %10.1f us %8.1f %-8s %5.2f of peak";
    printf(format, figure->section, figure->what, figure->seconds * 1e6, figure->value,
           figure->unit, figure->of_peak);
    if (figure->peer_seconds > 0)
        printf(bench->is_json ? ", \"peer_us\": %.2f" : ", peer %10.1f us",
               figure->peer_seconds * 1e6);
    if (figure->goal > 0)
        printf(bench->is_json ? ", \"ratio\": %.4f, \"goal\": %.2f" : ", ratio %5.2f, goal %.2f",
               figure->ratio, figure->goal);
    printf(bench->is_json ? "}\n" : "\n");
    fflush(stdout);
}

struct bench_arguments bench_arguments_parse(int argc, char **argv)
{
    struct bench_arguments arguments = {.names = argv + 1};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            arguments.is_quick = true;
        else if (strcmp(argv[i], "--json") == 0)
            arguments.is_json = true;
        else if (i == 1 && isdigit((unsigned char)argv[i][0]))
            arguments.n_threads = (uint32_t)strtoul(argv[i], NULL, 10);
        else
            arguments.names[arguments.n_names++] = argv[i];
    }
    return arguments;
}

bool bench_arguments_want(const struct bench_arguments *arguments, const char *name)
{
    for (int i = 0; i < arguments->n_names; i++)
        if (strcmp(arguments->names[i], name) == 0)
            return true;
    return arguments->n_names == 0;
}

/* ---- what the machine can do ---- */

enum { FMA_ROUNDS = 200000, FMA_CHAINS = 12 };

__attribute__((target("avx512f"))) static void fma512(void *arg, uint32_t index)
{
    __m512 sums[FMA_CHAINS];
    for (int i = 0; i < FMA_CHAINS; i++)
        sums[i] = _mm512_set1_ps((float)i);
    __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(1e-3f);
    for (uint32_t round = 0; round < FMA_ROUNDS; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < FMA_CHAINS; i++)
            sums[i] = _mm512_fmadd_ps(sums[i], x, y);
    }
    for (int i = 0; i < FMA_CHAINS; i++)
        ((volatile float *)arg)[index * 16] = _mm512_reduce_add_ps(sums[i]);
}

__attribute__((target("avx2,fma"))) static void fma256(void *arg, uint32_t index)
{
    __m256 sums[FMA_CHAINS];
    for (int i = 0; i < FMA_CHAINS; i++)
        sums[i] = _mm256_set1_ps((float)i);
    __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(1e-3f);
    for (uint32_t round = 0; round < FMA_ROUNDS; round++) {
#pragma GCC unroll 12
        for (int i = 0; i < FMA_CHAINS; i++)
            sums[i] = _mm256_fmadd_ps(sums[i], x, y);
    }
    for (int i = 0; i < FMA_CHAINS; i++)
        ((volatile float *)arg)[index * 16] = _mm256_cvtss_f32(sums[i]);
}

static void run_fma512(void *arg)
{
    static float sink[THREADS_MAX * 16];
    const struct bench *bench = arg;
    thread_pool_run(bench->pool, bench->n_threads, fma512, sink);
}

static void run_fma256(void *arg)
{
    static float sink[THREADS_MAX * 16];
    const struct bench *bench = arg;
    thread_pool_run(bench->pool, bench->n_threads, fma256, sink);
}

static void stream_on(struct bench *bench)
{
    bench->stream_at = (bench->stream_at + STREAM_CHUNK) % STREAM_BYTES;
}

static void copy_part(void *arg, uint32_t index)
{
    const struct bench *bench = arg;
    size_t part = STREAM_CHUNK / bench->n_threads;
    size_t at = bench->stream_at + index * part;
    memcpy(bench->stream[1] + at, bench->stream[0] + at, part);
}

static void run_copy(void *arg)
{
    struct bench *bench = arg;
    thread_pool_run(bench->pool, bench->n_threads, copy_part, arg);
    stream_on(bench);
}

__attribute__((target("avx2"))) static void read_part(void *arg, uint32_t index)
{
    const struct bench *bench = arg;
    size_t part = STREAM_CHUNK / bench->n_threads;
    const char *bytes = bench->stream[0] + bench->stream_at + index * part;
    __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                       _mm256_setzero_si256()};
    for (size_t i = 0; i + 128 <= part; i += 128) {
        _mm_prefetch(bytes + i + 2048, _MM_HINT_T0);
        _mm_prefetch(bytes + i + 2112, _MM_HINT_T0);
#pragma GCC unroll 4
        for (size_t j = 0; j < 4; j++)
            sums[j] = _mm256_add_epi64(
                sums[j], _mm256_loadu_si256((const __m256i *)(const void *)(bytes + i + 32 * j)));
    }
    sums[0] = _mm256_add_epi64(_mm256_add_epi64(sums[0], sums[1]),
                               _mm256_add_epi64(sums[2], sums[3]));
    volatile long long sink = _mm256_extract_epi64(sums[0], 0);
    (void)sink;
}

static void run_read(void *arg)
{
    struct bench *bench = arg;
    thread_pool_run(bench->pool, bench->n_threads, read_part, arg);
    stream_on(bench);
}

static void measure_machine(struct bench *bench)
{
    double bytes = (double)STREAM_CHUNK;
    for (int i = 0; i < 2; i++) {
        bench->stream[i] = allocate(STREAM_BYTES);
        memset(bench->stream[i], 1, STREAM_BYTES);
    }
    bool is_512 = __builtin_cpu_supports("avx512f");
    double lanes = is_512 ? 16 : 8;
    double seconds = best_seconds(is_512 ? run_fma512 : run_fma256, bench);
    bench->fma_peak = 2 * lanes * FMA_CHAINS * FMA_ROUNDS * bench->n_threads / seconds / 1e9;
    bench->read_peak = bytes / best_seconds(run_read, bench) / 1e9;
    bench->copy_peak = 2 * bytes / best_seconds(run_copy, bench) / 1e9;
}

void bench_print_machine(const struct bench *bench)
{
    printf(
        bench->is_json
            ? "{\"section\": \"machine\", \"kernels\": \"%s\", \"threads\": %u, \"fma_gflops\": "
              "%.1f, \"read_gbs\": %.2f, \"copy_gbs\": %.2f}\n"
            : "kernels %s, %u threads: multiply-add %.0f GFLOP/s, read %.1f GB/s, copy %.1f GB/s "
              "(read + written)\n",
        bench->kernels->name, bench->n_threads, bench->fma_peak, bench->read_peak,
        bench->copy_peak);
    fflush(stdout);
}

void bench_open(uint32_t n_threads, bool is_json, struct bench *bench_out)
{
    struct error error = {""};
    *bench_out = (struct bench){.is_json = is_json};
    if (kernels_select(NULL, &bench_out->kernels, &error) != STATUS_OK) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    must(thread_pool_create(n_threads, true, &bench_out->pool));
    bench_out->n_threads = thread_pool_size(bench_out->pool);
    measure_machine(bench_out);
}

void bench_close(struct bench *bench)
{
    for (int i = 0; i < 2; i++)
        munmap(bench->stream[i], STREAM_BYTES);
    thread_pool_destroy(bench->pool);
}
