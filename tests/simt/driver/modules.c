/* The modules of a program that runs on the driver double: it knows them by these words, and brings the kernels itself. */
#include "kernels/cuda/launch.h"

#define WORDS(name) "kvferry driver double, module " #name

const struct device_module cuda_modules[CUDA_UNITS] = {
#define UNIT(name) {#name, WORDS(name), sizeof WORDS(name)},
#include "kernels/cuda/units.list"
#undef UNIT
};
