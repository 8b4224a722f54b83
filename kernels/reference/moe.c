#include "kernels/reference/moe.h"

#include "kernels/moe_parts.h"

#include <assert.h>

/* The scratch memory for one token. */
struct scratch {
    double *sum;          /* [n_in] */
    float *logits;        /* [n_experts] */
    uint32_t *ids;        /* [top_k] */
    float *weights;       /* [top_k] */
    float *gate_up;       /* [2 n_inner] */
    float *gate, *up, *y; /* [n_inner or n_shared_inner], twice; [n_in] */
};

static uint32_t inner_max(const struct moe_config *config)
{
    return config->n_inner > config->n_shared_inner ? config->n_inner : config->n_shared_inner;
}

static struct scratch scratch_at(char *base, const struct moe_config *config, size_t *bytes_out)
{
    const size_t inner = inner_max(config);
    struct moe_space space = {.base = base};
    struct scratch scratch = {
        .sum = moe_space_take(&space, 2 * (size_t)config->n_in),
        .logits = moe_space_take(&space, config->routing.n_experts),
        .ids = moe_space_take(&space, config->routing.top_k),
        .weights = moe_space_take(&space, config->routing.top_k),
        .gate_up = moe_space_take(&space, 2 * inner),
        .gate = moe_space_take(&space, inner),
        .up = moe_space_take(&space, inner),
        .y = moe_space_take(&space, config->n_in),
    };
    *bytes_out = space.used;
    return scratch;
}

static size_t workspace_bytes(const struct moe_config *config, uint32_t n_tokens_max)
{
    size_t bytes;
    (void)n_tokens_max;
    scratch_at(NULL, config, &bytes);
    return bytes;
}

/* y = matrix x + bias */
static void multiply(const struct moe *moe, struct gemm product, const float *x, float *y_out)
{
    product.x = x;
    product.y = y_out;
    product.n_tokens = 1;
    moe->kernels->gemm(NULL, &product, 1);
}

/* scratch->y = expert(x) */
static void expert_forward(const struct moe *moe, const struct moe_expert *expert, uint32_t n_inner,
                           const float *x, const struct scratch *scratch)
{
    uint32_t n_in = moe->config.n_in;
    if (expert->up.w) {
        multiply(moe, moe_product(&expert->gate, n_inner, n_in), x, scratch->gate);
        multiply(moe, moe_product(&expert->up, n_inner, n_in), x, scratch->up);
    } else {
        multiply(moe, moe_product(&expert->gate, 2 * n_inner, n_in), x, scratch->gate_up);
        moe_split(scratch->gate_up, n_inner, scratch->gate, scratch->up);
    }
    struct gated gated = moe_gated(&moe->config, scratch->gate, scratch->up, 1, n_inner);
    moe->kernels->gated(NULL, &gated);
    multiply(moe, moe_product(&expert->down, n_in, n_inner), scratch->gate, scratch->y);
}

static void add_weighted(const struct scratch *scratch, uint32_t n, float weight)
{
    for (uint32_t i = 0; i < n; i++)
        scratch->sum[i] += (double)weight * (double)scratch->y[i];
}

static void token_forward(const struct moe *moe, const struct moe_weights *weights, const float *x,
                          const float *router_x, const struct scratch *scratch)
{
    const struct moe_config *config = &moe->config;
    multiply(moe, moe_product(&weights->router, config->routing.n_experts, config->n_in), router_x,
             scratch->logits);
    moe_choose(moe, weights, scratch->logits, scratch->ids, scratch->weights);
    for (uint32_t i = 0; i < config->n_in; i++)
        scratch->sum[i] = 0;
    for (uint32_t rank = 0; rank < config->routing.top_k; rank++) {
        assert(scratch->ids[rank] < config->routing.n_experts);
        expert_forward(moe, &weights->experts[scratch->ids[rank]], config->n_inner, x, scratch);
        add_weighted(scratch, config->n_in, scratch->weights[rank]);
    }
    if (config->n_shared_inner == 0)
        return;
    float weight = 1;
    if (weights->shared_gate.w) {
        multiply(moe, moe_product(&weights->shared_gate, 1, config->n_in), x, &weight);
        weight = moe_sigmoid(weight);
    }
    expert_forward(moe, &weights->shared, config->n_shared_inner, x, scratch);
    add_weighted(scratch, config->n_in, weight);
}

static void forward(const struct moe *moe, struct thread_pool *pool,
                    const struct moe_weights *weights, const struct moe_io *io)
{
    size_t bytes;
    struct scratch scratch = scratch_at(moe->workspace, &moe->config, &bytes);
    (void)pool;
    assert(bytes <= moe->workspace_bytes);
    for (uint32_t token = 0; token < io->n_tokens; token++) {
        float *y = io->y + token * io->y_stride;
        const float *x = io->x + token * io->x_stride;
        token_forward(moe, weights, x,
                      io->router_x ? io->router_x + token * io->router_x_stride : x, &scratch);
        for (uint32_t i = 0; i < moe->config.n_in; i++)
            y[i] = (float)(scratch.sum[i] + (io->accumulate ? (double)y[i] : 0));
    }
}

const struct moe_backend reference_moe = {
    .workspace_bytes = workspace_bytes,
    .forward = forward,
};
