#include "kernels/cuda/attention_flash.cuh"

#define UNIT_LIST "kernels/cuda/attention_flash.list"
#include "kernels/cuda/unit.cuh"
