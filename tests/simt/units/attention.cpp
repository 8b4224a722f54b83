#include "kernels/cuda/attention.cuh"

#define UNIT_LIST "kernels/cuda/attention.list"
#include "harness/unit.h"
