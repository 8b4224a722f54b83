#include "kernels/cuda/attention_whole.cuh"

#define UNIT_LIST "kernels/cuda/attention_whole.list"
#include "harness/unit.h"
