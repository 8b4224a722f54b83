/*
 * overflow - a model whose V becomes infinite at one token, and nowhere else: all its weights are finite.
 *
 * Element 0 of every embedding is 0 but that token's, which is large; the first row of the first layer's V takes
 * element 0 times 3e38. The head stays as it was.
 *
 * Thread: as the model.
 */
#pragma once

#include "model/weights/weights.h"

#include <criterion/criterion.h>
#include <stdlib.h>

#define OVERFLOW_NOWHERE UINT32_MAX /* a token: element 0 is 0 everywhere */

struct overflow {
    float *embedding, *v; /* in place of the model's; on the host */
};

static inline float *overflow_copy(struct tensor *tensor)
{
    const size_t n = (size_t)tensor->n_out * tensor->n_in;
    float *copy = malloc(n * sizeof *copy);
    cr_assert_not_null(copy);
    for (size_t i = 0; i < n; i++)
        copy[i] = dtype_load(tensor->dtype, tensor->data, i);
    tensor->data = copy;
    tensor->dtype = DTYPE_F32;
    return copy;
}

/* Before anything computes with the model. */
static inline void overflow_plant(const struct model *model, uint32_t token,
                                  struct overflow *overflow_out)
{
    struct weights *weights = (struct weights *)(uintptr_t)model_weights(model);
    const struct overflow overflow = {.embedding = overflow_copy(&weights->embedding),
                                      .v = overflow_copy(&weights->layers[0].v)};
    for (uint32_t i = 0; i < weights->embedding.n_out; i++)
        overflow.embedding[(size_t)i * weights->embedding.n_in] = i == token ? 10 : 0;
    overflow.v[0] = 3e38f;
    *overflow_out = overflow;
}

/* Behind the model's last step. */
static inline void overflow_finish(struct overflow *overflow)
{
    free(overflow->embedding);
    free(overflow->v);
}
