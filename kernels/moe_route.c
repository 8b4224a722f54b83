/* moe_route - chooses the experts of one token, with their weights, from the router's logits. */
#include "kernels/moe.h"

#include <assert.h>
#include <math.h>

/* Takes the n largest of the allowed values; of equal values the lower index comes first. Taken values are no longer
 * allowed. */
static void take_best(const double *values, uint32_t n_values, uint32_t n, bool *allowed,
                      uint32_t *ids_out)
{
    for (uint32_t rank = 0; rank < n; rank++) {
        uint32_t best = n_values;
        for (uint32_t i = 0; i < n_values; i++)
            if (allowed[i] && (best == n_values || values[i] > values[best]))
                best = i;
        assert(best < n_values);
        allowed[best] = false;
        ids_out[rank] = best;
    }
}

static double group_value(const struct moe_routing *routing, const double *values, uint32_t size)
{
    double best = -INFINITY, second = -INFINITY;
    for (uint32_t i = 0; i < size; i++) {
        if (values[i] > best) {
            second = best;
            best = values[i];
        } else if (values[i] > second) {
            second = values[i];
        }
    }
    return routing->group_score == MOE_GROUP_TWO ? best + second : best;
}

/* Allows the experts of the best groups. */
static void allow_groups(const struct moe_routing *routing, const double *choice, bool *allowed)
{
    double values[MOE_EXPERTS_MAX];
    uint32_t groups[MOE_EXPERTS_MAX];
    bool open[MOE_EXPERTS_MAX];
    uint32_t size = routing->n_experts / routing->n_groups;
    for (uint32_t g = 0; g < routing->n_groups; g++) {
        values[g] = group_value(routing, choice + g * size, size);
        open[g] = true;
    }
    take_best(values, routing->n_groups, routing->top_groups, open, groups);
    for (uint32_t e = 0; e < routing->n_experts; e++)
        allowed[e] = !open[e / size]; /* a group that was taken is no longer open */
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* The sum of exp(logit - the largest) over all experts. */
static double exponential_sum(const struct moe_routing *routing, const float *logits,
                              double *largest_out)
{
    double largest = -INFINITY, sum = 0;
    for (uint32_t e = 0; e < routing->n_experts; e++)
        largest = fmax(largest, (double)logits[e]);
    for (uint32_t e = 0; e < routing->n_experts; e++)
        sum += exp((double)logits[e] - largest);
    *largest_out = largest;
    return sum;
}

static void weigh(const struct moe_routing *routing, const float *logits, const uint32_t *ids,
                  float *weights_out)
{
    double values[MOE_EXPERTS_MAX];
    double sum = 0, divisor = 1;
    double largest = (double)logits[ids[0]]; /* the largest chosen one if the score is a softmax */
    bool is_sigmoid = routing->score == MOE_SIGMOID;
    bool is_over_all = routing->score == MOE_SOFTMAX_ALL && !routing->renormalise;
    if (is_over_all)
        divisor = exponential_sum(routing, logits, &largest);
    for (uint32_t rank = 0; rank < routing->top_k; rank++) {
        double logit = (double)logits[ids[rank]];
        values[rank] = is_sigmoid ? sigmoid(logit) : exp(logit - largest);
        sum += values[rank];
    }
    if (is_sigmoid && routing->renormalise)
        divisor = sum + 1e-20;
    else if (!is_sigmoid && !is_over_all)
        divisor = sum;
    for (uint32_t rank = 0; rank < routing->top_k; rank++)
        weights_out[rank] = (float)(values[rank] / divisor * (double)routing->scale);
}

void moe_route(const struct moe_routing *routing, const float *selection_bias, const float *logits,
               uint32_t *ids_out, float *weights_out)
{
    double choice[MOE_EXPERTS_MAX] = {0};
    bool allowed[MOE_EXPERTS_MAX];
    assert(routing->n_experts > 0 && routing->n_experts <= MOE_EXPERTS_MAX);
    assert(routing->n_groups <= routing->n_experts);
    assert(routing->n_groups == 0 || routing->n_experts % routing->n_groups == 0);
    assert(routing->top_k > 0 && routing->top_k <= routing->n_experts);
    for (uint32_t e = 0; e < routing->n_experts; e++) {
        double logit = (double)logits[e]; /* softmax keeps the order of the logits */
        choice[e] = routing->score == MOE_SIGMOID ? sigmoid(logit) : logit;
        if (selection_bias)
            choice[e] += (double)selection_bias[e];
        allowed[e] = true;
    }
    if (routing->n_groups > 0)
        allow_groups(routing, choice, allowed);
    take_best(choice, routing->n_experts, routing->top_k, allowed, ids_out);
    weigh(routing, logits, ids_out, weights_out);
}
