/*
 * conform - small kernels that call each wrapper of hardware.cuh, for a comparison of its two bodies: tests/gpu/conform. They
 * are part of no image of the program.
 */
#pragma once

#include "kernels/cuda/conform/conform_global.cuh"
#include "kernels/cuda/conform/conform_numbers.cuh"
#include "kernels/cuda/conform/conform_shared.cuh"
#include "kernels/cuda/conform/conform_warp.cuh"
