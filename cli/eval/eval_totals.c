#include "cli/eval/eval_totals.h"

#include <math.h>
#include <stdlib.h>

static enum status keep_divergence(struct eval_totals *totals, double divergence)
{
    if (totals->n == totals->n_max) {
        const uint64_t n_max = totals->n_max ? 2 * totals->n_max : 4096;
        double *grown = realloc(totals->divergences, n_max * sizeof *grown);
        if (!grown)
            return STATUS_NO_MEMORY;
        totals->divergences = grown;
        totals->n_max = n_max;
    }
    totals->divergences[totals->n] = divergence;
    return STATUS_OK;
}

enum status eval_totals_add(struct eval_totals *totals, const struct eval_pair *pair)
{
    if (totals->has_reference) {
        const double difference = fabs(pair->row.log_probability - pair->reference.log_probability);
        TRY(keep_divergence(totals, pair->divergence));
        totals->log_sum_reference += pair->reference.log_probability;
        totals->n_same += pair->row.likeliest == pair->reference.likeliest;
        totals->difference_sum += difference;
        totals->difference_max = fmax(totals->difference_max, difference);
    }
    totals->log_sum += pair->row.log_probability;
    totals->n++;
    return STATUS_OK;
}

void eval_totals_finish(struct eval_totals *totals)
{
    free(totals->divergences);
    *totals = (struct eval_totals){0};
}

double eval_totals_perplexity(const struct eval_totals *totals)
{
    return exp(-totals->log_sum / (double)totals->n);
}

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static json_t *divergence_json(struct eval_totals *totals)
{
    double sum = 0.0;

    qsort(totals->divergences, totals->n, sizeof *totals->divergences, by_value);
    for (uint64_t i = 0; i < totals->n; i++)
        sum += totals->divergences[i];
    const uint64_t p99 = (totals->n * 99 - 1) / 100; /* at least 99 of 100 are not larger */
    return json_pack("{s:f, s:f, s:f}", "mean", sum / (double)totals->n, "p99",
                     totals->divergences[p99], "max", totals->divergences[totals->n - 1]);
}

json_t *eval_totals_json(struct eval_totals *totals, size_t n_bytes)
{
    const double n = (double)totals->n;

    if (totals->n == 0)
        return NULL;
    json_t *facts = json_pack("{s:I, s:f, s:f}", "tokens", (json_int_t)totals->n, "perplexity",
                              eval_totals_perplexity(totals), "bits_per_byte",
                              -totals->log_sum / log(2.0) / (double)n_bytes);
    if (facts && totals->has_reference)
        json_object_update_new(
            facts,
            json_pack("{s:f, s:f, s:o, s:{s:f, s:f}}", "reference_perplexity",
                      exp(-totals->log_sum_reference / n), "same_token", (double)totals->n_same / n,
                      "divergence", divergence_json(totals), "log_probability_difference", "mean",
                      totals->difference_sum / n, "max", totals->difference_max));
    return facts;
}
