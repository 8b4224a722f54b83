/* The modules of a program that runs on the driver double: it knows them by these words, and brings the kernels itself. */
#include "tests/gpu/conform/conform.h"

#define WORDS(name) "kvferry driver double, module " #name

const struct device_module conform_modules[CONFORM_UNITS] = {
    {"conform", WORDS(conform), sizeof WORDS(conform)},
    {"conform_sm90", WORDS(conform_sm90), sizeof WORDS(conform_sm90)},
};
