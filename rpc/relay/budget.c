#include "rpc/relay/budget.h"

#include "base/clock.h"

double budget_level(struct budget *budget, const struct budget_rate *rate, uint64_t now_ns)
{
    double store = (double)rate->per_s * rate->store_s;
    if (!budget->has_begun)
        budget->level = store;
    else if (now_ns > budget->at_ns)
        budget->level += (double)(now_ns - budget->at_ns) / (double)NS_PER_S * rate->per_s;
    budget->has_begun = true;
    budget->at_ns = now_ns;
    if (budget->level > store)
        budget->level = store;
    return budget->level;
}

uint64_t budget_take(struct budget *budget, const struct budget_rate *rate, uint32_t n,
                     uint64_t now_ns)
{
    budget->level = budget_level(budget, rate, now_ns) - n;
    double debt_max = (double)rate->per_s * rate->debt_s;
    if (budget->level < -debt_max)
        budget->level = -debt_max;
    if (budget->level >= 0)
        return 0;
    return (uint64_t)(-budget->level / rate->per_s * (double)NS_PER_S) + 1;
}
