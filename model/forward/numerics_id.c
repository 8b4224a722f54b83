#include "model/forward/numerics_id.h"

#include "device/device.h"
#include "kernels/attention_backends.h"
#include "kernels/kernels.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define FMA "fma" /* fused multiply-adds of float32, in the order of kernels/cpu */

/* The names of a set's sums in the id; NULL: the name of the set. Attention in float32, FP8 and INT8 adds as FMA does in all of them. */
struct sums {
    const char *set;
    const char *products;
    const char *int8;    /* products with INT8 weights */
    const char *half[2]; /* attention in BF16 and FP16 */
};

static const struct sums SUMS[] = {
    {"scalar", FMA, NULL, {FMA, FMA}},      {"avx2", FMA, FMA, {FMA, FMA}},
    {"avx2_vnni", FMA, FMA, {FMA, FMA}},    {"avx512", FMA, FMA, {FMA, FMA}},
    {"avx512_vnni", FMA, FMA, {FMA, FMA}},  {"avx512_bf16", FMA, FMA, {NULL, FMA}},
    {"avx512_fp16", FMA, FMA, {FMA, NULL}}, {"amx", FMA, FMA, {NULL, FMA}},
    {"amx_bf16", NULL, NULL, {NULL, FMA}},  {"neon", FMA, FMA, {FMA, FMA}},
    {"neon_dot", FMA, FMA, {FMA, FMA}},
};

static const char *const MATHS[CONTEXT_MATHS] = {"compute", "bf16", "fp16",
                                                 "fp8",     "int8", "int8_fp8"};
static const char *const WEIGHTS[] = {"asis", "int8", "int8_group32", "q8", "q4"};

static const struct sums *find_sums(const char *set)
{
    for (size_t i = 0; i < sizeof SUMS / sizeof *SUMS; i++)
        if (strcmp(SUMS[i].set, set) == 0)
            return &SUMS[i];
    return NULL;
}

static const char *products_of(const char *set, enum weight_format weights)
{
    const struct sums *sums = find_sums(set);
    const char *name = !sums ? NULL : weight_format_is_int8(weights) ? sums->int8 : sums->products;
    return name ? name : set;
}

static const char *attention_of(const char *set, enum context_math math)
{
    const struct sums *sums = find_sums(set);
    const char *name = !sums                       ? NULL
                       : math == CONTEXT_MATH_BF16 ? sums->half[0]
                       : math == CONTEXT_MATH_FP16 ? sums->half[1]
                                                   : FMA;
    return name ? name : set;
}

void numerics_id_format(const struct numerics_parts *parts, char id_out[NUMERICS_ID_MAX])
{
    assert((unsigned)parts->math < CONTEXT_MATHS);
    assert((unsigned)parts->weights < sizeof WEIGHTS / sizeof *WEIGHTS);
    char device[32] = "cpu-f32";
    if (parts->architecture)
        snprintf(device, sizeof device, "cuda_sm%u-bf16", parts->architecture);
    int n = snprintf(id_out, NUMERICS_ID_MAX, "%s-%s-%s-%s%s%s-%s%s-%d", device,
                     products_of(parts->kernels, parts->weights),
                     attention_of(parts->attention, parts->math), MATHS[parts->math],
                     parts->stores_scores ? "_whole" : "", parts->has_sinks ? "_sinks" : "",
                     WEIGHTS[parts->weights],
                     parts->activations == BLOCK_ACTIVATIONS_INT8 ? "_a8" : "", NUMERICS_VERSION);
    assert(n > 0 && n < NUMERICS_ID_MAX && "a cut id could equal another");
    assert(numerics_is_id(id_out));
}

void numerics_id_of_model(const struct model *model, const struct forward_options *options,
                          enum weight_format weights, char id_out[NUMERICS_ID_MAX])
{
    const struct device *device = model_device(model);
    const struct numerics_parts parts = {
        .architecture = device ? device_get_traits(device).architecture : 0,
        .kernels = model_kernels(model)->name,
        .attention = attention_backend_set(model_attention(model)),
        .math = options->context_math,
        .weights = weights,
        .activations = options->block_activations,
        /* int8 with such a path is refused later */
        .stores_scores = !context_math_is_int8(options->context_math) &&
                         forward_stores_scores(&options->attention),
        .has_sinks = options->sinks.window > 0,
    };
    numerics_id_format(&parts, id_out);
}
