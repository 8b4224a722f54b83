/* modules - the modules of a build without a CUDA compiler: names without bytes. */
#include "kernels/cuda/launch.h"

const struct device_module cuda_modules[CUDA_UNITS] = {
#define UNIT(name) {#name, NULL, 0},
#include "kernels/cuda/units.list"
#undef UNIT
};
