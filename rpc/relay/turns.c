#include "rpc/relay/turns.h"

#include <assert.h>

/* True: the count is the first of its round. */
static bool add(struct turn_count *count, uint32_t n, uint64_t round)
{
    assert(count->round <= round); /* time never goes back */
    bool is_first = count->round < round;
    if (count->round + 1 < round)
        count->n[(round + 1) % 2] = 0;
    if (is_first) {
        count->n[round % 2] = 0;
        count->round = round;
    }
    count->n[round % 2] += n;
    return is_first;
}

static void take_away(struct turn_count *count, uint64_t round)
{
    if (round != count->round && round + 1 != count->round)
        return;
    assert(count->n[round % 2] > 0);
    count->n[round % 2]--;
}

static uint32_t n_in(const struct turn_count *count, uint64_t round)
{
    bool is_kept = round == count->round || round + 1 == count->round;
    return is_kept ? count->n[round % 2] : 0;
}

void turns_ask(struct turns *turns, struct turn_count *own, uint32_t n, uint64_t now_ns)
{
    uint64_t round = now_ns / TURNS_ROUND_NS;
    (void)add(&turns->unanswered, n, round);
    if (add(own, n, round))
        (void)add(&turns->addresses, 1, round);
}

void turns_answer(struct turns *turns, struct turn_count *own, uint64_t *asked_ns)
{
    if (*asked_ns == 0)
        return;
    take_away(&turns->unanswered, *asked_ns / TURNS_ROUND_NS);
    take_away(own, *asked_ns / TURNS_ROUND_NS);
    *asked_ns = 0;
}

bool turns_may_ask(const struct turns *turns, const struct turn_count *own, uint32_t n_max,
                   uint64_t now_ns)
{
    uint64_t round = now_ns / TURNS_ROUND_NS;
    const struct turn_count *all = &turns->unanswered;
    if (n_in(all, round) + n_in(all, round - 1) < n_max)
        return true;
    uint32_t n_now = n_in(&turns->addresses, round);
    uint32_t n_before = n_in(&turns->addresses, round - 1);
    uint32_t n_addresses = n_now > n_before ? n_now : n_before;
    uint32_t share = n_addresses > 0 ? n_max / n_addresses : n_max;
    return n_in(own, round) + n_in(own, round - 1) < (share > 0 ? share : 1);
}

uint64_t turns_next_round_ns(uint64_t now_ns)
{
    return (now_ns / TURNS_ROUND_NS + 1) * TURNS_ROUND_NS;
}
