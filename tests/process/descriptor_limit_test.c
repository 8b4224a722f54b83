/* descriptor_limit: what the kernel allows is used, and what is too little is said with both numbers. */

#include "base/log/log.h"
#include "process/descriptor_limit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct descriptor_needs NEEDS = {
    .n_ports = 3, .connections_max = 100, .peers_max = 10, .data_connections_max = 64};

static void limit_to(rlim_t soft, rlim_t hard)
{
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){soft, hard}), 0);
}

static rlim_t soft_limit(void)
{
    struct rlimit limit;
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
}

Test(descriptor_limit, the_soft_one_is_raised_to_the_hard_one)
{
    struct error error = {0};
    limit_to(200, 1000);
    cr_assert_eq(descriptor_limit_raise(&NEEDS, &error), STATUS_OK, "%s", error.text);
    cr_expect_eq(soft_limit(), 1000);
}

Test(descriptor_limit, too_little_for_the_configuration_is_warned_of)
{
    struct error error = {0};
    char text[1024] = "";
    FILE *captured = tmpfile();
    cr_assert(captured && dup2(fileno(captured), STDERR_FILENO) == STDERR_FILENO);
    cr_assert_eq(descriptor_needs_sum(&NEEDS), 1172);
    limit_to(200, 1171);
    cr_assert_eq(descriptor_limit_raise(&NEEDS, &error), STATUS_OK, "%s", error.text);
    cr_expect_eq(soft_limit(), 1171);
    cr_assert_gt(pread(fileno(captured), text, sizeof text - 1, 0), 0);
    fclose(captured);
    cr_expect(strstr(text, "limit of open descriptors is 1171") && strstr(text, "may need 1172"),
              "%s", text);
}

Test(descriptor_limit, too_little_for_anything_is_refused)
{
    struct error error = {0};
    limit_to(100, 100);
    cr_expect_eq(descriptor_limit_raise(&NEEDS, &error), STATUS_UNSUPPORTED);
    cr_expect(strstr(error.text, "descriptors is 100; at least 128 are needed, 1172 for all"), "%s",
              error.text);
}
