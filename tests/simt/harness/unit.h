/*
 * unit - the host's entry points of one unit, from its list (UNIT_LIST): simt_run_NAME(shape, parameters).
 */
#include "harness/checks.h"
#include "harness/simt.h"
#include "harness/threads.h"

#include <stddef.h>

static const struct simt::pointer_field unit_pointers[] = {
#define KERNEL(name, body, parameters, threads_max, ctas)
#define POINTER(parameters, field) {#parameters, #field, offsetof(struct parameters, field)},
#include UNIT_LIST
#undef KERNEL
#undef POINTER
    {nullptr, nullptr, 0}};

#define BODY(...) __VA_ARGS__
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads_max, ctas)                                          \
    void simt_run_##name(const struct device_shape *shape, const void *bytes);                     \
    void simt_run_##name(const struct device_shape *shape, const void *bytes)                      \
    {                                                                                              \
        struct parameters p;                                                                       \
        memcpy(&p, bytes, sizeof p);                                                               \
        simt::check_launch(#name, shape->threads, threads_max);                                    \
        simt::check_pointers(#name, #parameters, unit_pointers, bytes);                            \
        simt::launch(dim3(shape->grid[0], shape->grid[1], shape->grid[2]), shape->threads,         \
                     shape->shared_bytes, [&] { BODY body(p); });                                  \
    }
#include UNIT_LIST
