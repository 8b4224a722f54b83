/* latent - the oracle's functions of kernels/latent.h, in float64. */
#pragma once

#include "kernels/latent.h"

extern const struct latent_backend reference_latent;
