#include "kernels/cuda/products_fours.cuh"

#define UNIT_LIST "kernels/cuda/products_fours.list"
#include "harness/unit.h"
