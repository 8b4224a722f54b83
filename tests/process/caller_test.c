/* caller: a host is one caller, however many connections it makes; on the loopback each connection is one. */
#include "process/caller.h"

#include <criterion/criterion.h>

static void expect(const char *a, const char *b, bool are_one)
{
    cr_assert_eq(caller_of_peer(a) == caller_of_peer(b), are_one, "%s and %s", a, b);
}

Test(caller, is_a_host_unless_all_are_of_one)
{
    expect("ipv4:10.0.0.7:4711", "ipv4:10.0.0.7:4712", true);
    expect("ipv6:[fd00::1]:4711", "ipv6:[fd00::1]:50000", true);
    expect("ipv6:%5Bfd00::1%5D:4711", "ipv6:%5Bfd00::1%5D:50000", true);
    expect("ipv4:10.0.0.7:4711", "ipv4:10.0.0.8:4711", false);
    expect("ipv6:[fd00::1]:4711", "ipv6:[fd00::2]:4711", false);
    expect("ipv4:127.0.0.1:4711", "ipv4:127.0.0.1:4712", false);
    expect("ipv6:[::1]:4711", "ipv6:[::1]:4712", false);
    expect("ipv6:%5B::1%5D:4711", "ipv6:%5B::1%5D:4712", false);
    expect("unix:/a", "unix:/b", false);
    expect("fd:7", "fd:8", true); /* of no address: all of them share */
}
