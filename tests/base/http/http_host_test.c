/* http_host: which names mean this machine, as a browser sends them. */
#include "base/http/http_host.h"

#include <criterion/criterion.h>
#include <string.h>

static bool is_local(const char *host)
{
    return http_host_is_local(host, strlen(host));
}

static bool may(const char *host, const char *names)
{
    return http_host_is_one_of(host, strlen(host), names);
}

Test(http_host, addresses_and_localhost_are_local)
{
    cr_expect(is_local("127.0.0.1") && is_local("127.0.0.1:8000") && is_local("10.0.0.7:1"));
    cr_expect(is_local("localhost") && is_local("LocalHost:8000") && is_local("[::1]:8000"));
    cr_expect(!is_local("") && !is_local(":8000") && !is_local("localhost."));
    cr_expect(!is_local("evil.example") && !is_local("127.0.0.1.evil.example"));
    cr_expect(!is_local("localhost.evil.example:8000") && !is_local("evil.example:127"));
}

Test(http_host, only_some_addresses_are_loopbacks)
{
    static const char *const ARE[] = {"127.0.0.1", "127.1.2.3:80", "localhost:3000", "[::1]",
                                      "[::1]:8000"};
    static const char *const ARE_NOT[] = {"",      "10.0.0.7",  "128.0.0.1",  "[2001:db8::1]",
                                          "[::1x", "127.evil",  "[::1].evil", "localhost.evil",
                                          "12",    "1270.0.0.1"};
    for (size_t i = 0; i < sizeof ARE / sizeof *ARE; i++)
        cr_expect(http_host_is_loopback(ARE[i], strlen(ARE[i])), "%s", ARE[i]);
    for (size_t i = 0; i < sizeof ARE_NOT / sizeof *ARE_NOT; i++)
        cr_expect(!http_host_is_loopback(ARE_NOT[i], strlen(ARE_NOT[i])), "%s", ARE_NOT[i]);
    cr_expect(http_host_is_named("10.0.0.7:1", 10, "10.0.0.7"));
    cr_expect(!http_host_is_named("localhost", 9, "10.0.0.7"));
}

Test(http_host, names_of_a_list_are_taken_whole)
{
    cr_expect(may("model.lan:8000", "model.lan") && may("MODEL.lan", "a, model.lan,b"));
    cr_expect(may("b", "a, model.lan,b") && may("anything", "*") && may("localhost", ""));
    cr_expect(!may("odel.lan", "model.lan") && !may("model.lan.evil", "model.lan"));
    cr_expect(!may("model", "model.lan") && !may("", "a,,b") && !may("a", ""));
}
