#include "router/admission/quota.h"

#include "base/clock.h"

#include <assert.h>

/* Of one taking, 38 M tokens: every sum and product below stays in 63 bits. */
#define PARTS_MAX (INT64_MAX / 4)

static void init(struct quota *quota, uint32_t rate, int64_t one_parts, int64_t capacity_parts,
                 uint64_t now_ns)
{
    *quota = (struct quota){
        .is_unlimited = rate == 0,
        .level_parts = capacity_parts,
        .capacity_parts = capacity_parts,
        .one_parts = one_parts,
        .fill_parts = rate,
        .filled_ns = now_ns,
    };
}

/* A thousandth of one fills in 1e9 / rate_milli ns. */
void quota_init_a_second(struct quota *quota, uint32_t rate_milli, uint64_t now_ns)
{
    assert(rate_milli <= QUOTA_MILLI_A_SECOND_MAX);
    const int64_t one_parts = 1000 * (int64_t)NS_PER_S;
    int64_t capacity_parts = (int64_t)rate_milli * (int64_t)NS_PER_S;
    init(quota, rate_milli, one_parts, capacity_parts > one_parts ? capacity_parts : one_parts,
         now_ns);
}

void quota_init_a_minute(struct quota *quota, uint32_t rate, uint64_t now_ns)
{
    assert(rate <= QUOTA_A_MINUTE_MAX);
    const int64_t one_parts = 60 * (int64_t)NS_PER_S;
    init(quota, rate, one_parts, (int64_t)rate * one_parts, now_ns);
}

static void fill(struct quota *quota, uint64_t now_ns)
{
    if (quota->is_unlimited || now_ns <= quota->filled_ns)
        return;
    assert(quota->fill_parts > 0 && quota->level_parts <= quota->capacity_parts);
    uint64_t passed_ns = now_ns - quota->filled_ns;
    uint64_t lacking = (uint64_t)(quota->capacity_parts - quota->level_parts);
    quota->filled_ns = now_ns;
    if (passed_ns > lacking / (uint64_t)quota->fill_parts)
        quota->level_parts = quota->capacity_parts;
    else
        quota->level_parts += (int64_t)passed_ns * quota->fill_parts;
}

void quota_inherit(struct quota *quota, const struct quota *old, uint64_t now_ns)
{
    struct quota filled = *old;
    if (quota->is_unlimited || old->is_unlimited)
        return;
    fill(&filled, now_ns);
    assert(filled.one_parts == quota->one_parts);
    if (filled.level_parts < quota->capacity_parts)
        quota->level_parts = filled.level_parts;
    quota->filled_ns = filled.filled_ns;
}

static int64_t parts_of(const struct quota *quota, uint64_t n)
{
    assert(n <= (uint64_t)(PARTS_MAX / quota->one_parts));
    return (int64_t)n * quota->one_parts;
}

uint64_t quota_wait_ns(struct quota *quota, uint64_t n, uint64_t now_ns)
{
    if (quota->is_unlimited)
        return 0;
    fill(quota, now_ns);
    int64_t wanted = parts_of(quota, n);
    if (wanted > quota->capacity_parts)
        wanted = quota->capacity_parts;
    if (wanted <= quota->level_parts)
        return 0;
    assert(quota->fill_parts > 0 && "else it would wait for ever");
    uint64_t lacking = (uint64_t)(wanted - quota->level_parts);
    uint64_t wait_ns = (lacking + (uint64_t)quota->fill_parts - 1) / (uint64_t)quota->fill_parts;
    return now_ns < quota->filled_ns ? wait_ns + (quota->filled_ns - now_ns) : wait_ns;
}

void quota_take(struct quota *quota, uint64_t n, uint64_t now_ns)
{
    assert(quota_wait_ns(quota, n, now_ns) == 0);
    quota_owe(quota, n, now_ns);
}

void quota_owe(struct quota *quota, uint64_t n, uint64_t now_ns)
{
    if (quota->is_unlimited)
        return;
    fill(quota, now_ns);
    int64_t parts = parts_of(quota, n);
    quota->level_parts = quota->level_parts > INT64_MIN / 2 + parts ? quota->level_parts - parts
                                                                    : INT64_MIN / 2;
}

void quota_give_back(struct quota *quota, uint64_t n, uint64_t now_ns)
{
    if (quota->is_unlimited)
        return;
    fill(quota, now_ns);
    int64_t parts = parts_of(quota, n);
    quota->level_parts = quota->level_parts < quota->capacity_parts - parts
                             ? quota->level_parts + parts
                             : quota->capacity_parts;
}
