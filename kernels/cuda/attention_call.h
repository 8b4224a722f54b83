/* attention_call - one call of the operator, and the one struct of parameters that every kernel of it takes. */
#pragma once

#include "kernels/attention.h"
#include "kernels/cuda/attention_layer.h"
#include "kernels/cuda/attention_parameters.h"

struct call {
    const struct attention *attention;
    const struct attention_metadata *metadata;
    const struct attention_io *io;
};

/* The parameters that are the same for all launches: queries and new keys of all sequences, the cache, the layer's tables. */
struct attention_parameters cuda_attention_parameters(const struct call *call);
