/*
 * gpu_sections - what gpu_bench measures: each prints its figures as lines of JSON.
 *
 * Thread: one.
 */
#pragma once

#include "tests/gpu/gpu.h"

void gpu_copy(struct gpu *gpu);
void gpu_prefill(struct gpu *gpu);
void gpu_decode(struct gpu *gpu);
void gpu_products(struct gpu *gpu);
