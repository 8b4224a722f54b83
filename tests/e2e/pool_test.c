/* Where no cgroup limits memory a pool is a part of what is free, which the workers of one serve share, and both a dry run and
 * a start say so. */
#include "support/command.h"
#include "support/server.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#define RULE "a third of the free memory, for all workers"

/* Of 2000 MiB; the batches of both are 320 MiB, which is more. */
#define SIXTH_MIB (2000.0 / 6)
#define WISHES    "--kv-room", "2000M", "--kv-dtype", "f32"

TestSuite(pool, .init = command_folder_make, .fini = command_folder_remove);

/* The number behind that text, which is looked for from *at on. */
static double number_behind(const char **at, const char *text)
{
    const char *found = strstr(*at, text);
    cr_assert_not_null(found, "\"%s\" is not in:\n%s", text, *at);
    *at = found + strlen(text);
    return strtod(*at, NULL);
}

static double pool_mib(const char **at)
{
    (void)number_behind(at, "pool        ");
    return number_behind(at, " tokens, ");
}

static void skip_under_a_limit(const char *plan)
{
    if (strstr(plan, "under the cgroup's limit"))
        cr_skip_test("this machine's cgroup limits memory");
}

Test(pool, workers_of_one_serve_take_a_third_of_what_is_free_together)
{
    RUN("serve", KVFERRY_DEMO_MODEL, "--dry-run", WISHES);
    EXPECT_OK();
    const char *at = last_command.out;
    skip_under_a_limit(at);
    for (uint32_t i = 0; i < 2; i++) {
        const double free_mib = number_behind(&at, "free        ");
        const double third_mib = number_behind(&at, "a third is ");
        const double pool = pool_mib(&at);
        cr_assert_float_eq(third_mib, free_mib / 6, 0.2);
        /* Of a block of 40 KiB the tables of the prefix cache are less than a hundredth. */
        cr_assert(pool <= third_mib + 0.1 && pool > 0.99 * third_mib - 0.2, "%f of %f MiB", pool,
                  third_mib);
        cr_assert(pool < SIXTH_MIB && pool > SIXTH_MIB - 100, "%f MiB", pool);
        EXPECT_IN(at, RULE);
    }
}

Test(pool, what_is_free_is_what_the_machine_has)
{
    RUN("serve", KVFERRY_DEMO_MODEL, "--dry-run", "--sequences-max", "4096");
    EXPECT_OK();
    const char *at = last_command.out;
    skip_under_a_limit(at);
    const double batch_mib = pool_mib(&at), available_mib = number_behind(&at, "memory      ");
    const double most_mib = available_mib / 6 > 256 ? available_mib / 6 : 256;
    cr_assert_leq(batch_mib, most_mib);
    cr_assert_leq(pool_mib(&at), most_mib);
}

#ifndef KVFERRY_SANITIZED /* whose shadow memory is measured, too, and leaves less */
Test(pool, a_start_takes_what_the_dry_run_says)
{
    struct child server;
    RUN("serve", KVFERRY_DEMO_MODEL, "--dry-run", WISHES);
    skip_under_a_limit(last_command.out);
    server_start(&server, (const char *const[]){WISHES, NULL});
    cr_assert_eq(child_log_count(&server, RULE), 2);
    struct server_members members;
    server_members(server.pid, &members);
    uint32_t n_large = 0;
    for (uint32_t i = 0; i < members.n; i++) {
        const struct child member = {.pid = members.pids[i]};
        const double mib = (double)child_resident_bytes(&member) / (1 << 20);
        cr_assert_lt(mib, SIXTH_MIB + 100, "%f MiB", mib);
        n_large += mib > SIXTH_MIB - 100;
    }
    cr_assert_eq(n_large, 2, "pools are there before it is ready");
    child_stop(&server);
}
#endif
