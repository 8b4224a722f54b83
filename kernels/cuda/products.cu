#include "kernels/cuda/products.cuh"

#define UNIT_LIST "kernels/cuda/products.list"
#include "kernels/cuda/unit.cuh"
