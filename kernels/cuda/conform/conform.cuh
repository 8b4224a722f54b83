/*
 * conform - small kernels that call each wrapper of hardware.cuh, so that tests/gpu/conform can compare its two bodies. They
 * are in no image of the program.
 */
#pragma once

#include "kernels/cuda/conform/conform_global.cuh"
#include "kernels/cuda/conform/conform_numbers.cuh"
#include "kernels/cuda/conform/conform_shared.cuh"
#include "kernels/cuda/conform/conform_warp.cuh"
