/*
 * moe - the oracle's mixture of experts: one token after another, one expert after another, in float64.
 */
#pragma once

#include "kernels/moe.h"

extern const struct moe_backend reference_moe;
