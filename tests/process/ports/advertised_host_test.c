/* advertised_host: what others are told is never "every address", and a given host is one that can be told. */
#include "process/ports/advertised_host.h"

#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static struct error error;

static const char *apply(const char *given, const char *bound)
{
    static char text[ADDRESS_TEXT_MAX];
    struct address address;
    cr_assert_eq(address_parse_listen(bound, &address, &error), STATUS_OK, "%s", error.text);
    if (advertised_host_apply(given, &address, &error) != STATUS_OK)
        return "refused";
    address_format(&address, text);
    return text;
}

Test(advertised_host, one_that_is_bound_is_told_unless_another_is_given)
{
    cr_assert_str_eq(apply("", "10.1.2.3:7"), "10.1.2.3:7");
    cr_assert_str_eq(apply("", "[fd00::1]:7"), "[fd00::1]:7");
    cr_assert_str_eq(apply("", "some.name:7"), "some.name:7");
    cr_assert_str_eq(apply("203.0.113.5", "10.1.2.3:7"), "203.0.113.5:7");
    cr_assert_str_eq(apply("fd00::9", "some.name:7"), "[fd00::9]:7");
}

Test(advertised_host, what_only_this_host_reaches_is_told_as_it_is)
{
    static const char *const LOCAL[] = {"127.0.0.1:7", "[::1]:7", "localhost:7", "unix:/run/x"};
    for (size_t i = 0; i < sizeof LOCAL / sizeof *LOCAL; i++)
        cr_assert_str_eq(apply("203.0.113.5", LOCAL[i]), LOCAL[i]);
}

static const char *const EVERYWHERE[] = {
    ":7", "0.0.0.0:7", "[::]:7", "[0:0:0:0:0:0:0:0]:7", "[::ffff:0.0.0.0]:7", "0:7", "0x0:7",
};

Test(advertised_host, every_address_is_told_as_the_one_that_is_given)
{
    for (size_t i = 0; i < sizeof EVERYWHERE / sizeof *EVERYWHERE; i++)
        cr_assert_str_eq(apply("pod-1.ctx", EVERYWHERE[i]), "pod-1.ctx:7", "%s", EVERYWHERE[i]);
}

/* As the kernel lists them. */
static bool is_of_an_interface(const char *host, bool *has_some_out)
{
    struct ifaddrs *all;
    char text[128];
    bool is_found = false;
    *has_some_out = false;
    cr_assert_eq(getifaddrs(&all), 0);
    for (const struct ifaddrs *one = all; one; one = one->ifa_next) {
        if (!one->ifa_addr || one->ifa_addr->sa_family != AF_INET || !(one->ifa_flags & IFF_UP) ||
            (one->ifa_flags & IFF_LOOPBACK))
            continue;
        *has_some_out = true;
        cr_assert_eq(getnameinfo(one->ifa_addr, sizeof(struct sockaddr_in), text, sizeof text, NULL,
                                 0, NI_NUMERICHOST),
                     0);
        is_found |= strcmp(text, host) == 0;
    }
    freeifaddrs(all);
    return is_found;
}

Test(advertised_host, every_address_is_told_as_one_of_an_interface_or_refused)
{
    struct address address;
    bool has_some;
    const char *told = apply("", "0.0.0.0:7");
    if (strcmp(told, "refused") == 0) {
        is_of_an_interface("", &has_some);
        cr_assert_not(has_some);
        cr_assert(strstr(error.text, "set advertise_address"), "%s", error.text);
        return;
    }
    cr_assert_eq(address_parse(told, &address, &error), STATUS_OK);
    cr_assert(is_of_an_interface(address.host, &has_some), "%s", told);
}

static const struct {
    const char *given, *part; /* part NULL: fine */
} GIVEN[] = {
    {"", NULL},
    {"10.0.0.1", NULL},
    {"fd00::1", NULL},
    {"pod-1.ctx.prod.svc", NULL},
    {"0.0.0.0", "means all addresses"},
    {"::", "means all addresses"},
    {"10.0.0.1:7", "is not a host"},
    {"[fd00::1]", "is not a host"},
    {"a b", "is not a host"},
    {"-x", "is not a host"},
};

Test(advertised_host, what_is_given_must_be_a_host)
{
    for (size_t i = 0; i < sizeof GIVEN / sizeof *GIVEN; i++) {
        enum status status = advertised_host_check(GIVEN[i].given, &error);
        cr_assert_eq(status, GIVEN[i].part ? STATUS_INVALID_ARGUMENT : STATUS_OK, "%s",
                     GIVEN[i].given);
        if (GIVEN[i].part)
            cr_assert(strstr(error.text, GIVEN[i].part), "%s", error.text);
    }
}
