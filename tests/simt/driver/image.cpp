/*
 * The image: the units of kernels/cuda, the one of tests/gpu/conform behind them, compiled for the harness, every access
 * announced by the compiler (-fsanitize=thread, whose callbacks the harness has). This file is not compiled so: it is the way in.
 */
#include "image.h"

#include "harness/memory.h"
#include "harness/simt.h"
#include "kernels/cuda/hardware.cuh"
#include "kernels/cuda/launch.h"
#include "tests/gpu/conform/conform.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads_max, ctas)                                          \
    void simt_run_##name(const struct device_shape *shape, const void *bytes);
#include "kernels/cuda/conform/conform.list"
#include "kernels/cuda/conform/conform_sm90.list"
#undef KERNEL
#undef POINTER

namespace
{
struct Pointer {
    const char *parameters, *field;
    size_t offset;
};
const Pointer pointers[] = {
#define KERNEL(name, body, parameters, threads_max, ctas)
#define POINTER(parameters, field) {#parameters, #field, offsetof(struct parameters, field)},
#include "kernels/cuda/conform/conform.list"
#include "kernels/cuda/conform/conform_sm90.list"
#include "kernels/cuda/kernels.list"
#undef KERNEL
#undef POINTER
};

const char *const units[] = {
#define UNIT(name) #name,
#include "kernels/cuda/units.list"
#undef UNIT
};

enum : uint32_t { KERNELS = CUDA_KERNELS + CONFORM_KERNELS };
KernelInfo infos[KERNELS];

template <size_t N> void set_name(char (&to)[N], const char *from)
{
    if (strlen(from) >= N)
        fprintf(stderr, "double-image: %s is too long a name\n", from), abort();
    memcpy(to, from, strlen(from) + 1);
}

/* A struct may be the argument of several units' kernels, each with rows of its own. */
bool has_pointer(const KernelInfo *kernel, size_t offset)
{
    for (uint32_t i = 0; i < kernel->n_pointers; i++)
        if (kernel->pointer[i].offset == offset)
            return true;
    return false;
}

void describe(KernelInfo *kernel, const char *name, const char *parameters, const char *module)
{
    set_name(kernel->name, name);
    set_name(kernel->module, module);
    for (auto &p : pointers) {
        if (strcmp(p.parameters, parameters) != 0 || has_pointer(kernel, p.offset))
            continue;
        if (kernel->n_pointers == sizeof kernel->pointer / sizeof *kernel->pointer)
            fprintf(stderr, "double-image: too many pointers in %s\n", parameters), abort();
        PointerInfo &pointer = kernel->pointer[kernel->n_pointers++];
        set_name(pointer.name, p.field);
        pointer.offset = static_cast<uint32_t>(p.offset);
    }
}

const KernelInfo *fill()
{
    KernelInfo *kernel = infos;
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads_max, ctas)                                          \
    describe(kernel, #name, #parameters, MODULE_NAME);                                             \
    kernel->parameter_bytes = sizeof(struct parameters);                                           \
    kernel++->threads = threads_max;
#define MODULE_NAME units[MODULE]
#include "kernels/cuda/kernels.list"
#undef MODULE_NAME
#define MODULE_NAME "conform"
#include "kernels/cuda/conform/conform.list"
#undef MODULE_NAME
#define MODULE_NAME "conform_sm90"
#include "kernels/cuda/conform/conform_sm90.list"
#undef MODULE_NAME
#undef KERNEL
#undef POINTER
    return infos;
}

void (*const conform_runs[])(const struct device_shape *, const void *) = {
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads_max, ctas) simt_run_##name,
#include "kernels/cuda/conform/conform.list"
#include "kernels/cuda/conform/conform_sm90.list"
#undef KERNEL
#undef POINTER
};

void run(uint32_t kernel, const LaunchShape &shape, const void *parameters, bool late_copies,
         uint32_t seed)
{
    struct simt_schedule schedule = {};
    schedule.copies_late = late_copies;
    schedule.seed = seed;
    if (kernel < CUDA_KERNELS)
        return simt_launch(kernel, &shape, parameters, &schedule);
    simt::schedule = {};
    simt::schedule.copies_late = late_copies;
    simt::schedule.seed = seed;
    conform_runs[kernel - CUDA_KERNELS](&shape, parameters);
}

void (*observer)(const volatile void *p, size_t n, uint8_t kinds);

void observe(void (*seen)(const volatile void *p, size_t n, uint8_t kinds))
{
    observer = seen;
}
} // namespace

/*
 * The compiler announces every access of a unit to the harness, which judges it inside its launch; on its way there it
 * passes here (--wrap), for the order between launches.
 */
#define PASS(name, n, kinds)                                                                       \
    void __real___tsan_##name(void *p);                                                            \
    void __wrap___tsan_##name(void *p)                                                             \
    {                                                                                              \
        observer(p, n, kinds);                                                                     \
        __real___tsan_##name(p);                                                                   \
    }
#define PASS_ALL(n)                                                                                \
    PASS(read##n, n, SEEN_READ)                                                                    \
    PASS(write##n, n, SEEN_WRITE)                                                                  \
    PASS(unaligned_read##n, n, SEEN_READ)                                                          \
    PASS(unaligned_write##n, n, SEEN_WRITE)
#define PASS_RANGE(name, kinds)                                                                    \
    void __real___tsan_##name(void *p, unsigned long n);                                           \
    void __wrap___tsan_##name(void *p, unsigned long n)                                            \
    {                                                                                              \
        observer(p, n, kinds);                                                                     \
        __real___tsan_##name(p, n);                                                                \
    }
extern "C" {
PASS_ALL(1)
PASS_ALL(2)
PASS_ALL(4)
PASS_ALL(8)
PASS_ALL(16)
PASS_RANGE(read_range, SEEN_READ)
PASS_RANGE(write_range, SEEN_WRITE)

/* simt::atomic_begin(void *place, unsigned bytes): atomic operations are the harness's own, and announced by nobody else. */
void __real__ZN4simt12atomic_beginEPvj(void *place, unsigned bytes);
void __wrap__ZN4simt12atomic_beginEPvj(void *place, unsigned bytes)
{
    observer(place, bytes, SEEN_READ | SEEN_WRITE);
    __real__ZN4simt12atomic_beginEPvj(place, bytes);
}

extern const Image kvferry_double_image;
const Image kvferry_double_image = {
    IMAGE_MAGIC, KERNELS, fill(), run, observe, simt_memory_add, simt_memory_remove,
};
}
