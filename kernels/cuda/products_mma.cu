#include "kernels/cuda/products_mma.cuh"

#define UNIT_LIST "kernels/cuda/products_mma.list"
#include "kernels/cuda/unit.cuh"
