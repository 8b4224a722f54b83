/*
 * gpu_conform - each wrapper of hardware.cuh: its device body against its host body, in one program.
 *
 *     gpu_conform DEVICE [--toy] [--plant NAME] [NAME...]     none named: all
 *
 * A line of JSON a comparison; what differs first, and what only the host's schedules differ in, on standard error. --toy: few
 * inputs, for a device that is a host. --plant: a bit of what the device gave for NAME is turned over before it is
 * compared, which has to be found. Exit status 3: something differs; 1: something fails.
 */
#include "tests/gpu/conform/conform_cases.h"
#include "tests/gpu/conform/conform_compare.h"
#include "tests/gpu/gpu.h"

#include <assert.h>
#include <dlfcn.h>
#include <math.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 8, SCALE = 32, SWEEP_THREADS = 256, SWEEP_CTAS = 512, TOY_CTAS = 2 };
#define SWEEP_INPUTS 0x2000000u /* at a time, of 2^32: every 128th, and all ties */
#define TOY_INPUTS   0x800u
#define PLANTED      0x00400000u /* a bit that every format has, and no bound allows */

struct session {
    struct gpu gpu;
    const char *planted; /* NULL: nothing is */
    char **names;
    int n_names;
    uint32_t n_failed;
};

static bool is_wanted(const struct session *session, const char *name)
{
    for (int i = 0; i < session->n_names; i++)
        if (strcmp(session->names[i], name) == 0)
            return true;
    return session->n_names == 0;
}

static uint32_t *words(uint32_t n)
{
    uint32_t *made = calloc(n ? n : 1, sizeof *made);
    assert(made);
    return made;
}

/* ---- one launch on the device ---- */

/* The driver's, of what lies behind it: device/ has no use for it yet. */
static void write_map(struct gpu *gpu, uint8_t *in)
{
    enum { UINT16 = 1, NO_INTERLEAVE = 0, SWIZZLE_128 = 3, NO_PROMOTION = 0, ZEROS = 0 };
    typedef unsigned (*encode)(void *map_out, unsigned dtype, uint32_t rank, void *base,
                               const uint64_t *dims, const uint64_t *strides, const uint32_t *box,
                               const uint32_t *steps, unsigned interleave, unsigned swizzle,
                               unsigned promotion, unsigned fill);
    const uint64_t dims[4] = {64, 8, 2, 3}, strides[3] = {128, 1024, 2048};
    const uint32_t box[4] = {64, 4, 1, 1}, steps[4] = {1, 1, 1, 1};
    alignas(64) uint32_t map[CONFORM_MAP_WORDS];
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    encode make = NULL;
    *(void **)&make = library ? dlsym(library, "cuTensorMapEncodeTiled") : NULL;
    unsigned code = make ? make(map, UINT16, 4, in + sizeof map, dims, strides, box, steps,
                                NO_INTERLEAVE, SWIZZLE_128, NO_PROMOTION, ZEROS)
                         : 1;
    if (code != 0) {
        fprintf(stderr, "the driver makes no tensor map: error %u\n", code);
        exit(1);
    }
    gpu_write(gpu, in, map, sizeof map);
}

static void on_device(struct session *session, const struct conform_launch *launch,
                      const char *name, uint32_t *out)
{
    struct gpu *gpu = &session->gpu;
    struct device_memory in_memory = {0}, out_memory;
    const struct device_shape shape = {{launch->ctas, 1, 1}, launch->threads, launch->shared_bytes};
    struct conform_parameters parameters = launch->sweep;
    must(device_allocate(gpu->device, DEVICE_WORKSPACE, launch->n_out * sizeof *out, &out_memory),
         NULL, "allocate");
    if (launch->n_in > 0) {
        must(device_allocate(gpu->device, DEVICE_WORKSPACE, launch->n_in * sizeof *launch->in,
                             &in_memory),
             NULL, "allocate");
        gpu_write(gpu, in_memory.base, launch->in, launch->n_in * sizeof *launch->in);
        if (launch->has_map)
            write_map(gpu, in_memory.base);
    }
    parameters.in = (const uint32_t *)(const void *)in_memory.base;
    parameters.out = (uint32_t *)(void *)out_memory.base;
    device_launch(gpu->device, launch->kernel, &shape, &parameters, sizeof parameters);
    gpu_read(gpu, out_memory.base, out, launch->n_out * sizeof *out);
    device_free(gpu->device, &out_memory);
    device_free(gpu->device, &in_memory);
    if (session->planted && strcmp(session->planted, name) == 0)
        out[launch->n_out / 2] ^= PLANTED;
}

/* ---- results ---- */

struct verdict {
    const char *name, *against;
    uint64_t n;
    double worst;    /* of what is allowed */
    uint64_t n_off;  /* that are not the same bits */
    char first[128]; /* that is wrong */
};

static void judge(struct verdict *verdict, uint32_t i, uint32_t input, uint32_t got,
                  uint32_t wanted, double difference)
{
    verdict->n++;
    verdict->n_off += got != wanted;
    if (!(difference <= verdict->worst))
        verdict->worst = difference;
    if (!(difference <= 1) && !verdict->first[0])
        snprintf(verdict->first, sizeof verdict->first, "word %u, of %08x: %08x, and %s has %08x",
                 i, input, got, verdict->against, wanted);
}

static void say(struct session *session, const struct verdict *verdict, const char *kind)
{
    const bool is_wrong = verdict->first[0];
    printf("{\"section\": \"conform\", \"name\": \"%s\", \"verdict\": \"%s\", \"kind\": \"%s\", "
           "\"of_allowed\": %.4g, \"other_bits\": %llu, \"n\": %llu}\n",
           verdict->name, is_wrong ? "WRONG" : "ok", kind, fmin(verdict->worst, 1e9),
           (unsigned long long)verdict->n_off, (unsigned long long)verdict->n);
    fflush(stdout);
    if (is_wrong)
        fprintf(stderr, "%s, %s: %s\n", verdict->name, kind, verdict->first);
    session->n_failed += is_wrong;
}

/* ---- kernels of words ---- */

static void compare_words(const struct conform_case *one, const uint32_t *in, const uint32_t *got,
                          const uint32_t *host, const uint32_t *bounds, struct verdict *verdict)
{
    for (uint32_t i = 0; i < one->n_out; i++) {
        double difference = got[i] == host[i] ? 0 : INFINITY;
        if (one->difference)
            difference = one->difference(i, got[i], host[i], bounds[i]);
        judge(verdict, i, one->n_in ? in[i % one->n_in] : 0, got[i], host[i], difference);
    }
}

/* The host agrees with itself, whatever the order. */
static void run_schedules(struct session *session, const struct conform_case *one,
                          const struct conform_launch *launch, const uint32_t *host)
{
    struct verdict verdict = {.name = one->name, .against = "the host in order"};
    uint32_t *other = words(one->n_out);
    for (uint32_t schedule = 1; schedule < CONFORM_SCHEDULES; schedule++) {
        conform_on_host(launch, schedule, other);
        for (uint32_t i = 0; i < one->n_out; i++)
            judge(&verdict, i, schedule, other[i], host[i], other[i] == host[i] ? 0 : INFINITY);
    }
    free(other);
    say(session, &verdict, "host, other schedules");
}

static void run_case(struct session *session, const struct conform_case *one)
{
    struct verdict verdict = {.name = one->name, .against = "the host"};
    uint32_t *in = words(one->n_in), *host = words(one->n_out), *got = words(one->n_out);
    uint32_t *magnitudes = words(one->n_in), *bounds = words(one->n_out);
    struct conform_launch launch = {one->kernel,       one->ctas, one->threads,
                                    one->shared_bytes, in,        one->n_in,
                                    one->n_out,        false,     {0}};
    one->fill(in, one->n_in);
    launch.has_map = one->has_map;
    if (one->has_map)
        conform_map_on_host(in + CONFORM_MAP_WORDS, in);
    conform_on_host(&launch, 0, host);
    run_schedules(session, one, &launch, host);
    if (one->magnitudes) {
        struct conform_launch of_magnitudes = launch;
        memcpy(magnitudes, in, one->n_in * sizeof *in);
        one->magnitudes(magnitudes, one->n_in);
        of_magnitudes.in = magnitudes;
        conform_on_host(&of_magnitudes, 0, bounds);
    }
    for (int run = 0; run < (session->gpu.is_toy ? 1 : RUNS); run++) {
        on_device(session, &launch, one->name, got);
        compare_words(one, in, got, host, bounds, &verdict);
    }
    say(session, &verdict, "device and host");
    free(in), free(host), free(got), free(magnitudes), free(bounds);
}

/* ---- numbers ---- */

static const char *const number_names[CONFORM_NUMBERS_ALL] = {
#define X(name, format, difference) #name,
    CONFORM_NUMBERS(X)
#undef X
};

static void compare_sweep(const struct conform_launch *launch, const uint32_t *got,
                          struct verdict *device, struct verdict *host)
{
    const enum conform_number number = (enum conform_number)launch->sweep.number;
    for (uint32_t i = 0; i < launch->n_out; i++) {
        const uint32_t input = conform_sweep_input(&launch->sweep, i);
        const uint32_t mine = conform_sweep_output(number, input);
        uint32_t expected;
        judge(device, i, input, got[i], mine, conform_difference(number, input, got[i], mine));
        if (conform_expected(number, input, &expected))
            judge(host, i, input, mine, expected,
                  conform_difference(number, input, mine, expected));
    }
}

static void run_sweep(struct session *session, enum conform_number number, uint32_t first,
                      uint32_t step, uint32_t n, struct verdict *device, struct verdict *host)
{
    const struct conform_launch launch = {
        .kernel = CONFORM_KERNEL_conform_numbers,
        .ctas = session->gpu.is_toy ? TOY_CTAS : SWEEP_CTAS,
        .threads = SWEEP_THREADS,
        .n_out = n,
        .sweep = {.n = n, .number = number, .first = first, .step = step},
    };
    uint32_t *got = words(n);
    on_device(session, &launch, number_names[number], got);
    compare_sweep(&launch, got, device, host);
    free(got);
}

/* Numbers of 16 bits and less: all. Others: all ties, and 2^25 spread over all 2^32. */
static void run_number(struct session *session, enum conform_number number)
{
    struct verdict device = {.name = number_names[number], .against = "the host"};
    struct verdict host = {.name = number_names[number], .against = "kernels/dtype.h"};
    const uint32_t ties = CONFORM_TIES << 16;
    const uint32_t n = session->gpu.is_toy ? TOY_INPUTS : SWEEP_INPUTS;
    if (number >= CONFORM_bf16_to_float) {
        run_sweep(session, number, 0, 1, 0x10000, &device, &host);
    } else {
        run_sweep(session, number, 0x9e3779b9u, (uint32_t)(0x100000000ull / n) + 1, n, &device,
                  &host);
        run_sweep(session, number, 0, 0, ties, &device, &host);
    }
    say(session, &device, "device and host");
    if (host.n > 0)
        say(session, &host, "host and kernels/dtype.h");
}

/* ---- */

static void run_all(struct session *session)
{
    const struct conform_case *cases;
    uint32_t n = conform_cases(session->gpu.is_toy ? 1 : SCALE, &cases);
    for (uint32_t i = 0; i < n; i++)
        if (is_wanted(session, cases[i].name) && (cases[i].kernel < CONFORM_KERNELS_EVERYWHERE ||
                                                  session->gpu.traits.architecture == 90))
            run_case(session, &cases[i]);
    for (int i = 0; i < CONFORM_NUMBERS_ALL; i++)
        if (is_wanted(session, number_names[i]))
            run_number(session, (enum conform_number)i);
}

int main(int argc, char **argv)
{
    struct session session = {0};
    int at = 2;
    bool is_toy = false;
    if (argc < 2) {
        fprintf(stderr, "usage: gpu_conform DEVICE [--toy] [--plant NAME] [NAME...]\n");
        return 2;
    }
    if (at < argc && strcmp(argv[at], "--toy") == 0)
        is_toy = true, at++;
    if (at + 1 < argc && strcmp(argv[at], "--plant") == 0)
        session.planted = argv[at + 1], at += 2;
    session.names = argv + at;
    session.n_names = argc - at;
    gpu_open(argv[1], is_toy, &session.gpu);
    gpu_load(&session.gpu, conform_image(session.gpu.traits.architecture));
    run_all(&session);
    gpu_close(&session.gpu);
    return session.n_failed > 0 ? 3 : 0;
}
