#include "kernels/cuda/attention_grouped.cuh"

#define UNIT_LIST "kernels/cuda/attention_grouped.list"
#include "kernels/cuda/unit.cuh"
