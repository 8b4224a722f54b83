/* random: the published generators, unbiased bounds, and secrets that differ. */

#include "base/random.h"

#include <criterion/criterion.h>
#include <string.h>

/* splitmix64 of 1234567, and xoshiro256** of {1, 2, 3, 4}: vectors of the authors' programs. */
Test(random, is_splitmix64_and_xoshiro256)
{
    struct random random;
    random_init(&random, 1234567);
    cr_expect_eq(random.state[0], 6457827717110365317u);
    cr_expect_eq(random.state[1], 3203168211198807973u);
    cr_expect_eq(random.state[2], 9817491932198370423u);
    cr_expect_eq(random.state[3], 4593380528125082431u);

    random = (struct random){{1, 2, 3, 4}};
    cr_expect_eq(random_u64(&random), 11520);
    cr_expect_eq(random_u64(&random), 0);
    cr_expect_eq(random_u64(&random), 1509978240);
    cr_expect_eq(random_u64(&random), 1215971899390074240u);
}

Test(random, below_covers_its_range_evenly)
{
    enum { N = 7, ROUNDS = 70000 };
    uint32_t counts[N] = {0};
    struct random random;
    random_init(&random, 3);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t x = random_below(&random, N);
        cr_assert_lt(x, N);
        counts[x]++;
    }
    /* 10,000 each; five standard deviations are 463. */
    for (int i = 0; i < N; i++)
        cr_expect(counts[i] > 9537 && counts[i] < 10463, "%d: %u", i, counts[i]);
    cr_expect_eq(random_below(&random, 1), 0);
}

Test(random, unit_stays_below_one)
{
    struct random random;
    double sum = 0;
    random_init(&random, 4);
    for (int i = 0; i < 100000; i++) {
        double x = random_unit(&random);
        cr_assert(x >= 0 && x < 1);
        sum += x;
    }
    cr_expect_float_eq(sum / 100000, 0.5, 0.005);
}

Test(random, secrets_fill_everything_and_differ)
{
    uint8_t a[300] = {0}, b[300] = {0};
    unsigned n_zero = 0;
    cr_assert_eq(random_secret(a, sizeof a, NULL), STATUS_OK);
    cr_assert_eq(random_secret(b, sizeof b, NULL), STATUS_OK);
    cr_expect_neq(memcmp(a, b, sizeof a), 0);
    for (unsigned i = 0; i < sizeof a; i++)
        n_zero += a[i] == 0;
    cr_expect_lt(n_zero, 30);
}
