/*
 * unit - defines the entry points of one unit, from its list (UNIT_LIST).
 */
#define BODY(...) __VA_ARGS__
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads, ctas)                                              \
    extern "C" __global__ void __launch_bounds__(threads, ctas)                                    \
        name(const __grid_constant__ struct parameters p)                                          \
    {                                                                                              \
        BODY body(p);                                                                              \
    }
#include UNIT_LIST
