#include "kernels/cuda/attention_masked.cuh"
#include "kernels/cuda/attention_reference.cuh"

#define UNIT_LIST "kernels/cuda/attention_int8.list"
#include "harness/unit.h"
