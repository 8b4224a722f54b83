/* The module of a program that runs on the driver double: it knows it by these words, and brings the kernels itself. */
#include "tests/gpu/conform/conform.h"

#define WORDS "kvferry driver double, module conform"

const struct device_module conform_modules[CONFORM_UNITS] = {
    {"conform", WORDS, sizeof WORDS},
};
