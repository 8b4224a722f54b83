#include "kernels/latent.h"

#include "base/thread_pool.h"
#include "kernels/backend/reach.h"
#include "kernels/latent_parts.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LATENT_ALIGNMENT = 64 };

struct kv_view latent_view_dense(void *base, uint32_t n_blocks, uint32_t n_layers,
                                 uint32_t block_tokens, const struct latent_config *config)
{
    const uint64_t row = latent_width(config) * dtype_bytes(config->cache);
    return (struct kv_view){
        .base = base,
        .block_stride = row * block_tokens * n_layers,
        .layer_stride = row * block_tokens,
        .token_stride = row,
        .n_blocks = n_blocks,
        .n_layers = n_layers,
        .block_tokens = block_tokens,
    };
}

/* ---- creation ---- */

static enum status check_dim(const char *name, uint32_t dim, uint32_t unit, uint32_t most,
                             struct error *error)
{
    if (dim == 0 || dim % unit != 0 || dim > most)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s is %u, must be a multiple of %u up to %u", name, dim, unit, most);
    return STATUS_OK;
}

static enum status check_positive(const char *name, float value, struct error *error)
{
    if (!isfinite(value) || value <= 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s is %g, must be positive", name,
                         (double)value);
    return STATUS_OK;
}

static enum status check_config(const struct latent_config *config, struct error *error)
{
    if (config->n_heads == 0 || config->n_heads > LATENT_HEADS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "n_heads is %u, must be from 1 to %u",
                         config->n_heads, LATENT_HEADS_MAX);
    TRY(check_dim("latent_dim", config->latent_dim, 16, LATENT_DIM_MAX, error));
    TRY(check_dim("rope_dim", config->rope_dim, 8, LATENT_ROPE_DIM_MAX, error));
    if ((unsigned)config->cache > DTYPE_E4M3)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "cache is %d, must be F32, BF16, F16, INT8 or E4M3", (int)config->cache);
    return check_positive("scale", config->scale, error);
}

enum status latent_create(const struct kernels *kernels, struct thread_pool *pool,
                          const struct latent_config *config, struct latent **latent_out,
                          struct error *error)
{
    TRY(check_config(config, error));
    if (!kernels->latent)
        return error_set(error, STATUS_UNSUPPORTED, "the kernels '%s' have no latent attention",
                         kernels->name);
    struct latent *latent = calloc(1, sizeof *latent);
    if (!latent)
        goto fail;
    latent->config = *config;
    latent->kernels = kernels;
    latent->pool = pool;
    latent->n_threads = pool ? thread_pool_size(pool) : 1;
    latent->workspace_bytes = kernels->latent->workspace_bytes(config, latent->n_threads);
    assert(latent->workspace_bytes % LATENT_ALIGNMENT == 0);
    if (latent->workspace_bytes > 0) {
        latent->workspace = aligned_alloc(LATENT_ALIGNMENT, latent->workspace_bytes);
        if (!latent->workspace)
            goto fail;
    }
    *latent_out = latent;
    return STATUS_OK;
fail:
    latent_destroy(latent);
    return error_set(error, STATUS_NO_MEMORY, "no memory for latent attention of %u heads",
                     config->n_heads);
}

void latent_destroy(struct latent *latent)
{
    if (!latent)
        return;
    free(latent->workspace);
    free(latent);
}

void latent_touch(struct latent *latent)
{
    if (latent->workspace)
        memset(latent->workspace, 0, latent->workspace_bytes);
}

/* ---- a step ---- */

static enum status check_strides(const struct kv_view *kv, uint64_t row, struct error *error)
{
    const struct {
        const char *name;
        uint64_t stride, count;
    } nested[] = {{"token_stride", kv->token_stride, kv->block_tokens},
                  {"layer_stride", kv->layer_stride, kv->n_layers},
                  {"block_stride", kv->block_stride, kv->n_blocks}};
    uint64_t span = row;
    for (size_t i = 0; i < sizeof nested / sizeof nested[0]; i++) {
        if (nested[i].count < 2)
            continue;
        if (nested[i].stride < span)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "kv.%s is %llu, must be at least %llu: the bytes that one of them "
                             "contains",
                             nested[i].name, (unsigned long long)nested[i].stride,
                             (unsigned long long)span);
        if (!reach(nested[i].stride, nested[i].count - 1, span, &span))
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "kv.%s is %llu: the size of %llu of them does not fit in 64 bits",
                             nested[i].name, (unsigned long long)nested[i].stride,
                             (unsigned long long)nested[i].count);
    }
    if (span > UINT64_MAX - (uint64_t)(uintptr_t)kv->base)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv.base is %p: the end, %llu bytes behind it, does not fit in 64 bits",
                         kv->base, (unsigned long long)span);
    return STATUS_OK;
}

static enum status check_view(const struct latent *latent, const struct kv_view *kv,
                              uint32_t layer_index, struct error *error)
{
    const uint32_t n = kv->block_tokens;
    if (!kv->base)
        return error_set(error, STATUS_INVALID_ARGUMENT, "kv.base is NULL");
    if (kv->is_contiguous)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv.is_contiguous is true: a cache of latents is paged");
    if (n < BLOCK_TOKENS_MIN || n > BLOCK_TOKENS_MAX || (n & (n - 1)) != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv.block_tokens is %u, must be a power of two from %u to %u", n,
                         BLOCK_TOKENS_MIN, BLOCK_TOKENS_MAX);
    if (layer_index >= kv->n_layers)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "layer_index is %u, must be below kv.n_layers %u", layer_index,
                         kv->n_layers);
    return check_strides(kv, latent_width(&latent->config) * dtype_bytes(latent->config.cache),
                         error);
}

static enum status check_sequence(const struct latent_step *step, uint32_t index,
                                  struct error *error)
{
    const struct latent_sequence *sequence = &step->sequences[index];
    const uint32_t block_tokens = step->kv.block_tokens;
    if (sequence->query_len > sequence->kv_len)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sequence %u: query_len is %u, above kv_len %u", index,
                         sequence->query_len, sequence->kv_len);
    if (sequence->query_len == 0)
        return STATUS_OK;
    if (!sequence->block_ids)
        return error_set(error, STATUS_INVALID_ARGUMENT, "sequence %u: block_ids is NULL", index);
    if ((uint64_t)sequence->n_blocks * block_tokens < sequence->kv_len)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sequence %u: kv_len is %u, n_blocks %u hold %llu tokens", index,
                         sequence->kv_len, sequence->n_blocks,
                         (unsigned long long)sequence->n_blocks * block_tokens);
    for (uint32_t i = 0; i < (sequence->kv_len + block_tokens - 1) / block_tokens; i++)
        if (sequence->block_ids[i] >= step->kv.n_blocks)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "sequence %u: block %u has id %u, the view has %u blocks", index, i,
                             sequence->block_ids[i], step->kv.n_blocks);
    return STATUS_OK;
}

static enum status check_io(const struct latent *latent, const struct latent_io *io,
                            struct error *error)
{
    const struct latent_config *config = &latent->config;
    const struct {
        const char *name;
        const void *array;
        uint64_t stride, n;
    } tensors[] = {
        {"rows", io->rows, io->rows_stride, latent_width(config)},
        {"q", io->q, io->q_stride, (uint64_t)config->n_heads * latent_width(config)},
        {"output", io->output, io->output_stride, (uint64_t)config->n_heads * config->latent_dim},
    };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++) {
        if (!tensors[i].array)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s is NULL", tensors[i].name);
        if (tensors[i].stride < tensors[i].n)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "%s_stride is %llu: a row has %llu elements", tensors[i].name,
                             (unsigned long long)tensors[i].stride,
                             (unsigned long long)tensors[i].n);
    }
    return dtype_is_8bit(config->cache) ? check_positive("cache_scale", io->cache_scale, error)
                                        : STATUS_OK;
}

enum status latent_check(const struct latent *latent, const struct latent_step *step,
                         const struct latent_io *io, struct error *error)
{
    if (step->n_sequences == 0)
        return STATUS_OK;
    if (!step->sequences)
        return error_set(error, STATUS_INVALID_ARGUMENT, "sequences is NULL");
    TRY(check_view(latent, &step->kv, io->layer_index, error));
    for (uint32_t s = 0; s < step->n_sequences; s++)
        TRY(check_sequence(step, s, error));
    return check_io(latent, io, error);
}

void latent_write(const struct latent *latent, const struct latent_step *step,
                  const struct latent_io *io)
{
    latent->kernels->latent->write(latent, step, io);
}

void latent_attend(const struct latent *latent, const struct latent_step *step,
                   const struct latent_io *io)
{
    latent->kernels->latent->attend(latent, step, io);
}
