#include "kvtransfer/transfer_plan.h"

#include <assert.h>
#include <string.h>

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

struct transfer_plan transfer_plan_of(const struct geometry *theirs, const struct geometry *ours,
                                      transfer_convert convert)
{
    struct transfer_plan plan = {
        .from_tokens = theirs->block_tokens,
        .to_tokens = ours->block_tokens,
        .run_tokens = smaller(theirs->block_tokens, ours->block_tokens),
        .from_dtype = theirs->dtype,
        .to_dtype = ours->dtype,
        .convert = convert,
    };
    assert(theirs->n_kv_heads == ours->n_kv_heads && theirs->head_dim == ours->head_dim);
    assert(theirs->n_layers == ours->n_layers && theirs->latent_dim == ours->latent_dim);
    for (uint32_t group = 0; group < cache_groups_count(&theirs->groups); group++) {
        const struct cache_heads heads = geometry_heads(theirs, group);
        plan.rows[group] = (struct transfer_rows){
            .n = geometry_layers_of_block(theirs, group) * geometry_rows(theirs) * heads.n,
            .head_dim = heads.dim,
        };
    }
    return plan;
}

uint32_t transfer_plan_n_runs(const struct transfer_plan *plan, uint32_t group)
{
    assert(group < CACHE_GROUPS_MAX);
    return plan->rows[group].n * (plan->from_tokens / plan->run_tokens);
}

/* Bytes to the row of a token in a block. */
static uint64_t row_at(const struct transfer_rows *rows, uint32_t row, uint32_t block_tokens,
                       uint32_t token, enum kv_dtype dtype)
{
    return ((uint64_t)row * block_tokens + token) * rows->head_dim * kv_dtype_bytes(dtype);
}

struct transfer_run transfer_plan_run(const struct transfer_plan *plan, uint32_t group,
                                      uint32_t position, uint32_t i)
{
    const struct transfer_rows *rows = &plan->rows[group];
    const uint32_t n_parts = plan->from_tokens / plan->run_tokens;
    const uint32_t row = i / n_parts, token = i % n_parts * plan->run_tokens;
    assert(position % plan->from_tokens == 0 && row < rows->n);
    return (struct transfer_run){
        .from = row_at(rows, row, plan->from_tokens, token, plan->from_dtype),
        .to = row_at(rows, row, plan->to_tokens, (position + token) % plan->to_tokens,
                     plan->to_dtype),
        .span = (position + token) / plan->to_tokens,
        .token = position + token,
    };
}

void transfer_plan_put(const struct transfer_plan *plan, uint32_t group, const uint8_t *block,
                       uint32_t position, const struct transfer_target *target)
{
    const uint32_t head_dim = plan->rows[group].head_dim;
    const uint64_t from_bytes = head_dim * kv_dtype_bytes(plan->from_dtype);
    const uint64_t to_bytes = head_dim * kv_dtype_bytes(plan->to_dtype);
    for (uint32_t i = 0; i < transfer_plan_n_runs(plan, group); i++) {
        const struct transfer_run run = transfer_plan_run(plan, group, position, i);
        const uint32_t first = larger(run.token, target->first);
        const uint32_t end = smaller(run.token + plan->run_tokens, target->end);
        if (first >= end)
            continue;
        assert(run.span >= target->first_span);
        const uint8_t *from = block + run.from + (first - run.token) * from_bytes;
        uint8_t *to = target->spans[run.span - target->first_span] + run.to +
                      (first - run.token) * to_bytes;
        if (plan->from_dtype == plan->to_dtype)
            memcpy(to, from, (end - first) * from_bytes);
        else
            plan->convert(plan->from_dtype, from, plan->to_dtype, to,
                          (size_t)(end - first) * head_dim);
    }
}
