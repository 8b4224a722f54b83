/*
 * budget - a rate limit: so many per second on average, with a store of some seconds. Taking more
 * makes debt.
 *
 * A budget starts full. Thread: the owner's (plain data).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct budget {
    double level; /* below 0: debt */
    uint64_t at_ns;
    bool has_begun;
};

struct budget_rate {
    uint32_t per_s;
    uint32_t store_s; /* it holds at most per_s x store_s */
    uint32_t debt_s;  /* and owes at most per_s x debt_s */
};

/* Takes n, even if it makes debt. Returns the ns until the debt is paid; 0: no debt. */
uint64_t budget_take(struct budget *budget, const struct budget_rate *rate, uint32_t n,
                     uint64_t now_ns);
double budget_level(struct budget *budget, const struct budget_rate *rate, uint64_t now_ns);
