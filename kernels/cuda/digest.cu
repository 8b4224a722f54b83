#include "kernels/cuda/digest.cuh"

#define UNIT_LIST "kernels/cuda/digest.list"
#include "kernels/cuda/unit.cuh"
