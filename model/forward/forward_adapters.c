/* What adapters add to the products of a layer. A row's results depend on its own adapter alone: gemm's sums do not depend on the other
 * rows of a call (kernels/kernels.h). */
#include "model/forward/forward_parts.h"

#include <assert.h>
#include <stdlib.h>

enum status forward_create_adapters(struct forward *forward)
{
    const uint32_t n = forward->options.sequences_max;
    struct forward_adapters *adapters = &forward->adapters;
    if (forward->options.adapter_rank_max == 0)
        return STATUS_OK;
    adapters->all.runs = calloc(n, sizeof *adapters->all.runs);
    adapters->wanted.runs = calloc(n, sizeof *adapters->wanted.runs);
    return adapters->all.runs && adapters->wanted.runs ? STATUS_OK : STATUS_NO_MEMORY;
}

void forward_destroy_adapters(struct forward *forward)
{
    free(forward->adapters.all.runs);
    free(forward->adapters.wanted.runs);
}

void forward_forget_adapters(struct forward *forward)
{
    struct forward_adapters *adapters = &forward->adapters;
    adapters->all.n = adapters->wanted.n = 0;
    adapters->now = &adapters->all;
}

static void add(struct adapter_runs *runs, const struct adapter *adapter, uint32_t first,
                uint32_t n)
{
    assert(runs->runs && "adapter_rank_max is set");
    struct adapter_run *last = runs->n > 0 ? &runs->runs[runs->n - 1] : NULL;
    if (last && last->adapter == adapter && last->first + last->n == first)
        last->n += n;
    else
        runs->runs[runs->n++] = (struct adapter_run){adapter, first, n};
}

void forward_take_adapter(struct forward *forward, const struct forward_sequence *sequence,
                          uint32_t first, uint32_t wanted)
{
    struct forward_adapters *adapters = &forward->adapters;
    const struct adapter *adapter = sequence->adapter;
    if (!adapter)
        return;
    assert(adapter_rank(adapter) <= forward->options.adapter_rank_max);
    add(&adapters->all, adapter, first, sequence->n_query);
    if (sequence->wants_logits)
        add(&adapters->wanted, adapter, wanted, 1);
}

void forward_keep_adapters(struct forward *forward)
{
    forward->adapters.now = &forward->adapters.wanted;
}

/* Small products that are computed together: all A x, then all B (A x). */
struct batch {
    const struct forward *forward;
    struct gemm inner[GEMMS_MAX], outer[GEMMS_MAX];
    float scales[GEMMS_MAX]; /* of the inner ones */
    uint32_t n_inner, n_outer;
    size_t n_low; /* floats of low that are taken */
};

static void compute(struct batch *batch)
{
    const struct forward *forward = batch->forward;
    if (batch->n_outer == 0)
        return;
    forward_multiply(forward, batch->inner, batch->n_inner);
    for (uint32_t i = 0; i < batch->n_inner; i++)
        if (batch->scales[i] != 1)
            forward_scale(forward, (struct rows){batch->inner[i].y, DTYPE_F32},
                          batch->inner[i].n_tokens, batch->inner[i].n_out, batch->scales[i]);
    forward_multiply(forward, batch->outer, batch->n_outer);
    batch->n_inner = batch->n_outer = 0;
    batch->n_low = 0;
}

static bool has_room(const struct batch *batch, size_t n_low)
{
    const struct forward *forward = batch->forward;
    return batch->n_outer < GEMMS_MAX &&
           n_low <=
               (size_t)forward->mlp_rows_max * forward->options.adapter_rank_max - batch->n_low;
}

/* Parts of a fused matrix follow each other and have the same A x. */
static bool has_same_inner(const struct batch *batch, const struct low_rank *low, const void *x,
                           uint32_t n)
{
    if (batch->n_inner == 0 || batch->n_outer == GEMMS_MAX)
        return false;
    const struct gemm *last = &batch->inner[batch->n_inner - 1];
    return last->w == low->a && last->x == x && last->n_tokens == n;
}

/* n rows of one adapter, which have room. */
static void multiply(struct batch *batch, const struct low_rank *low, struct rows x, struct rows y,
                     uint32_t y_stride, uint32_t n)
{
    const size_t n_low = (size_t)n * low->rank;
    if (!has_same_inner(batch, low, x.data, n)) {
        if (!has_room(batch, n_low))
            compute(batch);
        batch->scales[batch->n_inner] = low->scale;
        batch->inner[batch->n_inner++] = (struct gemm){
            .x = x.data,
            .x_dtype = x.dtype,
            .x_stride = low->n_in,
            .w = low->a,
            .w_dtype = low->a_dtype,
            .y = (float *)batch->forward->adapters.low.data + batch->n_low,
            .y_dtype = DTYPE_F32,
            .y_stride = low->rank,
            .n_tokens = n,
            .n_in = low->n_in,
            .n_out = low->rank};
        batch->n_low += n_low;
    }
    batch->outer[batch->n_outer++] = (struct gemm){.x = batch->inner[batch->n_inner - 1].y,
                                                   .x_dtype = DTYPE_F32,
                                                   .x_stride = low->rank,
                                                   .w = low->b,
                                                   .w_dtype = low->b_dtype,
                                                   .y = y.data,
                                                   .y_dtype = y.dtype,
                                                   .y_stride = y_stride,
                                                   .n_tokens = n,
                                                   .n_in = low->rank,
                                                   .n_out = low->n_out,
                                                   .accumulate = true};
}

/* Rows at .. at + n - 1 from where x and y begin. */
static void adapt_rows(struct batch *batch, uint32_t layer, const struct adapter *adapter,
                       struct rows x, const struct adapted *parts, uint32_t n_parts, uint32_t at,
                       uint32_t n)
{
    for (uint32_t i = 0; i < n_parts; i++) {
        const struct low_rank *low = adapter_part(adapter, layer, parts[i].part);
        if (low)
            multiply(batch, low, forward_rows_from(x, (size_t)at * low->n_in),
                     forward_rows_from(parts[i].y, (size_t)at * parts[i].y_stride),
                     parts[i].y_stride, n);
    }
}

void forward_adapt(const struct forward *forward, uint32_t layer, struct rows x,
                   const struct adapted *parts, uint32_t n_parts, uint32_t first, uint32_t n_rows)
{
    const struct adapter_runs *runs = forward->adapters.now;
    const uint32_t end = first + n_rows, most = forward->mlp_rows_max;
    if (!runs || runs->n == 0)
        return;
    struct batch batch = {.forward = forward};
    for (uint32_t i = 0; i < runs->n; i++) {
        const struct adapter_run *run = &runs->runs[i];
        uint32_t from = run->first > first ? run->first : first;
        const uint32_t to = run->first + run->n < end ? run->first + run->n : end;
        for (uint32_t n; from < to; from += n) {
            n = to - from < most ? to - from : most;
            adapt_rows(&batch, layer, run->adapter, x, parts, n_parts, from - first, n);
        }
    }
    compute(&batch);
}
