#include "model/forward/kernel_trial.h"

#include "kernels/attention_backends.h"
#include "model/forward/numerics_id.h"

#include <assert.h>
#include <string.h>

#define GAIN_PARTS 10 /* another set is chosen if it saves at least one part in so many */

static void format_id(const struct kernel_trial *trial, const struct kernels *set,
                      char id_out[NUMERICS_ID_MAX])
{
    const struct numerics_parts parts = {.kernels = set->name,
                                         .attention = attention_backend_set(set->attention),
                                         .math = trial->math,
                                         .weights = trial->weights};
    numerics_id_format(&parts, id_out);
}

uint32_t kernel_trial_sets(const struct kernel_trial *trial, const struct kernels *const *list,
                           uint32_t n_list, const struct kernels *sets_out[KERNEL_TRIAL_MAX])
{
    char wanted[NUMERICS_ID_MAX], id[NUMERICS_ID_MAX];
    uint32_t n = 0;
    assert(n_list > 0 && n_list <= KERNEL_TRIAL_MAX);
    format_id(trial, list[n_list - 1], wanted);
    for (uint32_t i = n_list; i-- > 0;) {
        format_id(trial, list[i], id);
        if (i == n_list - 1 || (strcmp(id, wanted) == 0 && strcmp(list[i]->name, "scalar") != 0))
            sets_out[n++] = list[i];
    }
    return n;
}

/* Index 0, the default, unless another time is shorter by a part. */
static uint32_t best_of(uint64_t (*times_ns)[2], uint32_t n, enum kernel_part part)
{
    uint64_t limit_ns = times_ns[0][part] / GAIN_PARTS * (GAIN_PARTS - 1);
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++) {
        const uint64_t time_ns = times_ns[i][part];
        if (time_ns == 0 || time_ns > limit_ns)
            continue;
        best = i;
        limit_ns = time_ns - 1;
    }
    return best;
}

void kernel_trial_choose(const struct kernel_trial *trial, const struct kernels *const *sets,
                         uint32_t n, const struct kernel_trial_ways *ways,
                         struct kernel_trial_choice *choice_out)
{
    struct kernel_trial_choice choice = {0};
    const uint64_t began_ns = ways->now_ns(ways->arg), end_ns = began_ns + KERNEL_TRIAL_NS;
    uint64_t now_ns = began_ns;
    uint32_t n_left = n > 1 ? 2 * n : 0;
    assert(n > 0 && n <= KERNEL_TRIAL_MAX);
    for (int part = KERNEL_PRODUCTS; part <= KERNEL_ATTENTION; part++)
        for (uint32_t i = 0; i < n && n_left > 0 && now_ns < end_ns; i++, n_left--) {
            choice.times_ns[i][part] = ways->time_ns(ways->arg, trial, sets[i],
                                                     (enum kernel_part)part,
                                                     now_ns + (end_ns - now_ns) / n_left);
            now_ns = ways->now_ns(ways->arg);
        }
    choice.took_ns = now_ns - began_ns;
    choice.products = sets[best_of(choice.times_ns, n, KERNEL_PRODUCTS)];
    choice.attention = sets[best_of(choice.times_ns, n, KERNEL_ATTENTION)];
    *choice_out = choice;
}
