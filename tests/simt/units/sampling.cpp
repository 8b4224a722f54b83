#include "kernels/cuda/sampling.cuh"

#define UNIT_LIST "kernels/cuda/sampling.list"
#include "harness/unit.h"
