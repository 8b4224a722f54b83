#include "kernels/cuda/attention_flash_sm90.cuh"

#define UNIT_LIST "kernels/cuda/attention_flash_sm90.list"
#include "kernels/cuda/unit.cuh"
