/*
 * conform - the two bodies of each wrapper of hardware.cuh, compared: small kernels get the same words on a device and, as
 * fibers, on the host.
 *
 * Thread: one.
 */
#pragma once

#include "device/device.h"
#include "kernels/cuda/conform/conform_parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

enum conform_unit { CONFORM_UNIT_conform, CONFORM_UNIT_conform_sm90, CONFORM_UNITS };
enum conform_kernel {
#define POINTER(parameters, field)
#define KERNEL(name, body, parameters, threads, ctas) CONFORM_KERNEL_##name,
#include "kernels/cuda/conform/conform.list"
    CONFORM_KERNELS_EVERYWHERE, /* the others are for sm_90 */
    CONFORM_KERNELS_BEFORE_SM90 = CONFORM_KERNELS_EVERYWHERE - 1,
#include "kernels/cuda/conform/conform_sm90.list"
#undef KERNEL
#undef POINTER
    CONFORM_KERNELS
};

/* Of a GPU of that architecture. */
const struct device_image *conform_image(uint32_t architecture);
/* [CONFORM_UNITS] conform_modules.c, or what the preset cuda makes in its place. */
extern const struct device_module conform_modules[];

/* The bf16 tensor [3][2][8][64] at base, in boxes of 4 rows, as a tensor map of the device, or of the host. */
enum { CONFORM_MAP_WORDS = 32 };
void conform_map_on_host(const uint32_t *base, uint32_t *map_out);

/* A launch of one kernel. in: [n_in] words; out: [n_out], zeros before. */
struct conform_launch {
    enum conform_kernel kernel;
    uint32_t ctas, threads, shared_bytes;
    const uint32_t *in;
    uint32_t n_in, n_out;
    bool has_map;                    /* in begins with the map of what is behind it */
    struct conform_parameters sweep; /* without addresses */
};

/* On the host, by one of CONFORM_SCHEDULES: copies early or late, threads in order or not. */
enum { CONFORM_SCHEDULES = 4 };
void conform_on_host(const struct conform_launch *launch, uint32_t schedule, uint32_t *out);
/* Input i of a sweep, and what the wrapper's host body makes of it. */
uint32_t conform_sweep_input(const struct conform_parameters *sweep, uint32_t i);
uint32_t conform_sweep_output(uint32_t number, uint32_t input);

#ifdef __cplusplus
}
#endif
