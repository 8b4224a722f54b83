#include "kernels/cuda/conform/conform_sm90.cuh"

#define UNIT_LIST "kernels/cuda/conform/conform_sm90.list"
#include "harness/unit.h"
