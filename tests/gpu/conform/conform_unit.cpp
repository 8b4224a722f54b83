#include "kernels/cuda/conform/conform.cuh"

#define UNIT_LIST "kernels/cuda/conform/conform.list"
#include "harness/unit.h"
