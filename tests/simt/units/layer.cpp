#include "kernels/cuda/layer.cuh"

#define UNIT_LIST "kernels/cuda/layer.list"
#include "harness/unit.h"
