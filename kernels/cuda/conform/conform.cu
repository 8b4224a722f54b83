#include "kernels/cuda/conform/conform.cuh"

#define UNIT_LIST "kernels/cuda/conform/conform.list"
#include "kernels/cuda/unit.cuh"
