#include "kernels/cuda/attention_masked.cuh"

#define UNIT_LIST "kernels/cuda/attention_masked_wide.list"
#include "harness/unit.h"
