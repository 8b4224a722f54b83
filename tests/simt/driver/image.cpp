/*
 * The image: the units of kernels/cuda compiled for the harness, every access announced by the compiler
 * (-fsanitize=thread, whose callbacks the executor has). This file is not compiled so: it is the way in.
 */
#include "image.h"

#include "harness/simt.h"
#include "kernels/cuda/hardware.cuh"
#include "kernels/cuda/launch.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace
{
struct Pointer {
    const char *parameters, *field;
    size_t offset;
};
const Pointer pointers[] = {
#define KERNEL(name, body, parameters, threads_max, ctas)
#define POINTER(parameters, field) {#parameters, #field, offsetof(struct parameters, field)},
#include "kernels/cuda/kernels.list"
#undef KERNEL
#undef POINTER
};

const char *const units[] = {
#define UNIT(name) #name,
#include "kernels/cuda/units.list"
#undef UNIT
};

KernelInfo infos[CUDA_KERNELS];

template <size_t N> void set_name(char (&to)[N], const char *from)
{
    if (strlen(from) >= N)
        fprintf(stderr, "double-image: %s is too long a name\n", from), abort();
    memcpy(to, from, strlen(from) + 1);
}

void describe(KernelInfo *kernel, const char *name, const char *parameters, const char *module)
{
    set_name(kernel->name, name);
    set_name(kernel->module, module);
    for (auto &p : pointers) {
        if (strcmp(p.parameters, parameters) != 0)
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
    describe(kernel, #name, #parameters, units[MODULE]);                                           \
    kernel->parameter_bytes = sizeof(struct parameters);                                           \
    kernel++->threads = threads_max;
#include "kernels/cuda/kernels.list"
#undef KERNEL
#undef POINTER
    return infos;
}

void run(uint32_t kernel, const LaunchShape &shape, const void *parameters, bool late_copies,
         uint32_t seed)
{
    struct simt_schedule schedule = {};
    schedule.copies_late = late_copies;
    schedule.seed = seed;
    simt_launch(kernel, &shape, parameters, &schedule);
}

uint64_t block()
{
    return (static_cast<uint64_t>(blockIdx.z) * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
}
} // namespace

extern "C" {
extern const Image kvferry_double_image;
const Image kvferry_double_image = {IMAGE_MAGIC, CUDA_KERNELS, fill(), run, block};

/* What the compiler makes a call of instead of announcing it. */
void __tsan_read_range(void *p, unsigned long n);
void __tsan_write_range(void *p, unsigned long n);
void *__real_memcpy(void *to, const void *from, size_t n);
void *__real_memmove(void *to, const void *from, size_t n);
void *__real_memset(void *to, int value, size_t n);

void *__wrap_memcpy(void *to, const void *from, size_t n)
{
    __tsan_read_range(const_cast<void *>(from), n);
    __tsan_write_range(to, n);
    return __real_memcpy(to, from, n);
}
void *__wrap_memmove(void *to, const void *from, size_t n)
{
    __tsan_read_range(const_cast<void *>(from), n);
    __tsan_write_range(to, n);
    return __real_memmove(to, from, n);
}
void *__wrap_memset(void *to, int value, size_t n)
{
    __tsan_write_range(to, n);
    return __real_memset(to, value, n);
}
}
