/* pace: on any machine a step with prompts takes about as long as it should, as far as whole blocks and bounds let it; whatever
 * happens to one step is forgotten. Time is what a pretended machine says. */
#include "base/clock.h"
#include "base/random.h"
#include "schedule/pace.h"

#include <criterion/criterion.h>

enum { BLOCK = 16, MOST = 1024 };
#define TARGET_NS (300 * NS_PER_MS)

/* A step takes its fixed part, as much for each token, and more of that for each token that is looked back at. */
struct machine {
    double fixed_ms, token_ms, past_ms;
};

static const struct machine SLOW = {50, 2, 0};     /* a small model on an old laptop */
static const struct machine SLOWER = {200, 25, 0}; /* 1 B on two AVX2 cores */
static const struct machine FAST = {5, 0.02, 0};   /* on a GPU */

static uint64_t takes_ns(const struct machine *machine, uint32_t n_tokens, uint32_t n_past)
{
    double ms = machine->fixed_ms + n_tokens * (machine->token_ms + n_past * machine->past_ms);
    return (uint64_t)(ms * (double)NS_PER_MS);
}

/* One step, of whole blocks as a schedule makes them; the time it took. */
static uint64_t step(struct pace *pace, const struct machine *machine, uint32_t n_past)
{
    uint32_t n_tokens = pace_tokens(pace) / BLOCK * BLOCK;
    uint64_t ns = takes_ns(machine, n_tokens, n_past);
    cr_assert_geq(n_tokens, BLOCK);
    cr_assert_leq(n_tokens, MOST);
    pace_took(pace, n_tokens, ns);
    return ns;
}

static uint64_t run(struct pace *pace, const struct machine *machine, uint32_t n_steps)
{
    uint64_t ns = 0;
    for (uint32_t i = 0; i < n_steps; i++)
        ns = step(pace, machine, 0);
    return ns;
}

static struct pace new_pace(void)
{
    struct pace pace;
    pace_init(&pace, TARGET_NS, BLOCK, MOST);
    return pace;
}

Test(pace, the_first_step_is_a_block_and_measures)
{
    struct pace pace = new_pace();
    cr_assert_eq(pace_tokens(&pace), BLOCK);
    cr_assert_eq(pace_token_ns(&pace), 0, "nothing was measured");
    pace_took(&pace, BLOCK, 16 * NS_PER_MS);
    cr_assert_eq(pace_token_ns(&pace), NS_PER_MS);
    cr_assert_eq(pace_tokens(&pace), 300);
}

Test(pace, no_step_is_long_before_it_is_right)
{
    struct pace pace = new_pace();
    for (int i = 0; i < 20; i++)
        cr_assert_leq(step(&pace, &SLOW, 0), TARGET_NS);
    cr_assert_geq(step(&pace, &SLOW, 0), TARGET_NS * 9 / 10);
}

Test(pace, a_fast_machine_has_the_most_after_a_few_steps_and_a_slow_one_a_block_at_a_time)
{
    struct pace pace = new_pace();
    run(&pace, &FAST, 3);
    cr_assert_eq(pace_tokens(&pace), MOST);
    pace = new_pace();
    run(&pace, &SLOWER, 10);
    cr_assert_eq(pace_tokens(&pace), BLOCK, "less there is not, however long it takes");
}

Test(pace, steps_that_take_no_time_are_no_reason_to_divide_by_it)
{
    struct pace pace = new_pace();
    pace_took(&pace, BLOCK, 0);
    cr_assert_eq(pace_tokens(&pace), MOST);
    cr_assert_eq(pace_token_ns(&pace), 0);
    pace_took(&pace, MOST, UINT64_MAX);
    cr_assert_geq(pace_tokens(&pace), BLOCK);
}

Test(pace, a_long_context_makes_shorter_steps_and_the_next_prompt_longer_ones_again)
{
    const struct machine machine = {10, 1, 0.0001};
    struct pace pace = new_pace();
    run(&pace, &machine, 10);
    uint32_t n_first = pace_tokens(&pace), n_past = 0;
    for (int i = 0; i < 100; i++) {
        uint32_t n = pace_tokens(&pace) / BLOCK * BLOCK;
        cr_assert_leq(step(&pace, &machine, n_past), TARGET_NS * 5 / 4);
        n_past += n;
    }
    cr_assert_lt(pace_tokens(&pace), n_first / 2);
    run(&pace, &machine, 12);
    cr_assert_geq(pace_tokens(&pace), n_first * 9 / 10);
}

Test(pace, decodes_beside_a_prompt_make_its_steps_shorter)
{
    struct machine machine = SLOW;
    struct pace pace = new_pace();
    run(&pace, &machine, 10);
    uint32_t n_alone = pace_tokens(&pace);
    machine.fixed_ms += 90; /* of the decodes: less than half of a step in all */
    uint64_t ns = run(&pace, &machine, 20);
    cr_assert_lt(pace_tokens(&pace), n_alone * 2 / 3);
    cr_assert_geq(ns, TARGET_NS * 8 / 10);
    cr_assert_leq(ns, TARGET_NS * 11 / 10);
}

Test(pace, the_end_of_a_prompt_says_little_and_decodes_alone_say_nothing)
{
    struct pace pace = new_pace();
    run(&pace, &SLOW, 10);
    uint32_t n = pace_tokens(&pace);
    pace_took(&pace, 1, takes_ns(&SLOW, 1, 0)); /* 51 times what a token takes */
    cr_assert_geq(pace_tokens(&pace), n * 3 / 4);
    n = pace_tokens(&pace);
    pace_took(&pace, 0, 10 * NS_PER_S);
    cr_assert_eq(pace_tokens(&pace), n);
}

Test(pace, a_machine_that_gets_ten_times_slower_is_followed_within_a_few_steps)
{
    const struct machine loaded = {SLOW.fixed_ms * 10, SLOW.token_ms * 10, 0};
    const struct machine slow = {0, 2, 0}, slowed = {0, 20, 0};
    struct pace pace = new_pace();
    run(&pace, &slow, 10);
    run(&pace, &slowed, 10);
    cr_assert_leq(pace_tokens(&pace), 20, "15 fit");
    run(&pace, &slow, 10);
    cr_assert_geq(pace_tokens(&pace), 120, "150 fit");
    run(&pace, &loaded, 10);
    cr_assert_leq(pace_tokens(&pace), 2 * BLOCK, "25 are worth its fixed part");
}

Test(pace, a_process_that_was_stopped_is_not_slow_afterwards)
{
    struct pace pace = new_pace();
    run(&pace, &SLOW, 10);
    uint32_t n = pace_tokens(&pace);
    pace_took(&pace, n / BLOCK * BLOCK, 3600 * NS_PER_S);
    run(&pace, &SLOW, 1);
    cr_assert_geq(pace_tokens(&pace), n * 8 / 10, "a step later");
}

Test(pace, without_a_target_every_step_has_the_most)
{
    struct pace pace;
    pace_init(&pace, 0, BLOCK, MOST);
    cr_assert_eq(pace_tokens(&pace), MOST);
    run(&pace, &SLOWER, 10);
    cr_assert_eq(pace_tokens(&pace), MOST);
    cr_assert_gt(pace_token_ns(&pace), 25 * NS_PER_MS,
                 "what is told to others is measured all the same");
}

/* The tokens that so many steps computed; the longest of them. */
static uint64_t compute(struct pace *pace, const struct machine *machine, uint32_t n_steps,
                        uint64_t *ns_out, uint64_t *longest_ns_out)
{
    uint64_t n_tokens = 0;
    *ns_out = *longest_ns_out = 0;
    for (uint32_t i = 0; i < n_steps; i++) {
        n_tokens += pace_tokens(pace) / BLOCK * BLOCK;
        uint64_t ns = step(pace, machine, 0);
        *ns_out += ns;
        *longest_ns_out = ns > *longest_ns_out ? ns : *longest_ns_out;
    }
    return n_tokens;
}

Test(pace, a_fixed_part_above_the_target_is_shared_by_as_many_tokens_as_it_is_worth)
{
    static const struct machine DEAR[] = {{400, 2, 0}, {1000, 4, 0}, {6000, 25, 0}, {310, 1, 0}};
    for (size_t i = 0; i < sizeof DEAR / sizeof *DEAR; i++) {
        struct pace pace = new_pace();
        uint64_t ns, longest_ns;
        run(&pace, &DEAR[i], 30);
        uint64_t n_tokens = compute(&pace, &DEAR[i], 80, &ns, &longest_ns);
        double best_ms = (double)n_tokens * DEAR[i].token_ms;
        cr_assert_leq((double)ns / (double)NS_PER_MS, 2.3 * best_ms, "half of the best rate, %zu",
                      i);
        cr_assert_leq((double)longest_ns / (double)NS_PER_MS, 2.2 * DEAR[i].fixed_ms, "%zu", i);
    }
}

Test(pace, a_block_that_just_fits_is_no_reason_to_stay_at_one)
{
    static const struct machine JUST = {270, 1, 0};
    struct pace pace = new_pace();
    uint64_t ns, longest_ns;
    run(&pace, &JUST, 40);
    uint64_t n_tokens = compute(&pace, &JUST, 80, &ns, &longest_ns);
    cr_assert_geq(n_tokens, 80 * 12 * BLOCK);
    cr_assert_leq(longest_ns, 600 * NS_PER_MS);
}

Test(pace, without_a_fixed_part_a_machine_that_is_too_slow_for_a_block_has_a_block)
{
    static const struct machine SLOWEST = {0, 100, 0};
    struct pace pace = new_pace();
    uint64_t ns, longest_ns;
    uint64_t n_tokens = compute(&pace, &SLOWEST, 80, &ns, &longest_ns);
    cr_assert_leq(n_tokens, 80 * BLOCK * 9 / 8, "one in eight looks whether two take as long");
    cr_assert_leq(longest_ns, takes_ns(&SLOWEST, 2 * BLOCK, 0));
}

Test(pace, a_machine_whose_steps_vary_by_a_third_is_understood_nevertheless)
{
    static const struct machine MACHINES[] = {{0, 100, 0}, {3000, 10, 0}};
    static const double MOST_TOKENS[] = {4 * BLOCK, 900}, LEAST_MEAN[] = {BLOCK, 120};
    for (size_t i = 0; i < sizeof MACHINES / sizeof *MACHINES; i++) {
        struct random random;
        struct pace pace = new_pace();
        uint64_t n_tokens = 0;
        random_init(&random, 5 + i);
        for (uint32_t n_steps = 0; n_steps < 400; n_steps++) {
            uint32_t n = pace_tokens(&pace) / BLOCK * BLOCK;
            double varied = 0.67 + 0.66 * (double)random_below(&random, 1000) / 1000;
            cr_assert_leq(n, MOST_TOKENS[i], "machine %zu, step %u", i, n_steps);
            pace_took(&pace, n, (uint64_t)(varied * (double)takes_ns(&MACHINES[i], n, 0)));
            n_tokens += n;
        }
        cr_assert_geq((double)n_tokens / 400, LEAST_MEAN[i], "machine %zu", i);
        cr_assert(i > 0 || n_tokens <= 400ull * BLOCK * 3 / 2, "%llu",
                  (unsigned long long)n_tokens);
    }
}

Test(pace, a_machine_that_is_slower_as_a_whole_has_the_chunks_that_it_had)
{
    static const struct machine DEAR = {1000, 10, 0}, DEARER = {10000, 100, 0};
    struct pace pace = new_pace();
    run(&pace, &DEAR, 40);
    uint32_t n = pace_tokens(&pace);
    cr_assert_geq(n, 80);
    uint64_t n_tokens = 0;
    for (int i = 0; i < 40; i++) {
        cr_assert_leq(pace_tokens(&pace), n, "step %d", i);
        run(&pace, &DEARER, 1);
        n_tokens += pace_tokens(&pace);
    }
    cr_assert_geq(n_tokens, 40 * n * 2 / 3, "but for some steps that see what the least takes now");
}

Test(pace, weights_that_come_from_a_disk_once_are_forgotten_at_the_second_step)
{
    struct pace pace = new_pace();
    pace_took(&pace, BLOCK, 60 * NS_PER_S);
    cr_assert_eq(pace_tokens(&pace), BLOCK);
    cr_assert_eq(pace_token_ns(&pace), 60 * NS_PER_S / BLOCK);
    run(&pace, &FAST, 3);
    cr_assert_eq(pace_tokens(&pace), MOST);
}

Test(pace, a_fixed_part_that_goes_away_leaves_steps_of_the_target_again)
{
    static const struct machine DEAR = {1000, 4, 0};
    struct pace pace = new_pace();
    run(&pace, &DEAR, 40);
    cr_assert_geq(pace_tokens(&pace), 150);
    cr_assert_leq(run(&pace, &SLOW, 20), TARGET_NS * 5 / 4);
}

/* Decodes beside prompts are a fixed part; when they are over, the next step may be the end of a prompt. */
Test(pace, a_short_step_behind_a_fixed_part_that_is_gone_makes_no_long_one)
{
    static const struct machine BESIDE = {640, 10, 0}, ALONE = {0, 10, 0};
    for (uint32_t n_tokens = 1; n_tokens <= BLOCK; n_tokens++) {
        struct pace pace = new_pace();
        run(&pace, &BESIDE, 100);
        cr_assert_gt(pace.fixed, 32, "the fixed part was learned: %g tokens", pace.fixed);
        pace_took(&pace, n_tokens, takes_ns(&ALONE, n_tokens, 0));
        uint64_t next_ns = takes_ns(&ALONE, pace_tokens(&pace), 0);
        cr_assert_leq(next_ns, 2 * TARGET_NS, "behind %u tokens a step of %lu ms", n_tokens,
                      (unsigned long)(next_ns / NS_PER_MS));
    }
}
