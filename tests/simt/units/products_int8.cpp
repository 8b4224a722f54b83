#include "kernels/cuda/products_mma.cuh"

#define UNIT_LIST "kernels/cuda/products_int8.list"
#include "harness/unit.h"
