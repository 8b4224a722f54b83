/*
 * unit - the host's entry points of one unit, from its list (UNIT_LIST): run_NAME(shape, parameters).
 */
#include "harness/simt.h"

#define BODY(...) __VA_ARGS__
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads_max, ctas)                                              \
    void simt_run_##name(const struct device_shape *shape, const void *bytes)                      \
    {                                                                                              \
        struct parameters p;                                                                       \
        memcpy(&p, bytes, sizeof p);                                                               \
        simt::launch(dim3(shape->grid[0], shape->grid[1], shape->grid[2]), dim3(shape->threads),   \
                     shape->shared_bytes, [&] { BODY body(p); });                                  \
    }
#include UNIT_LIST
