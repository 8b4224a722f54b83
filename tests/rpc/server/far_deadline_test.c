/* server: a grpc-timeout that nanoseconds cannot count is a deadline far away, not one that has passed
 * (gRPC's own clients cap what they send). */
#include "tests/rpc/support/probe.h"
#include "tests/rpc/support/raw_call.h"

#include <unistd.h>

Test(far_deadline, is_not_taken_for_one_that_has_passed)
{
    /* The second makes 2^64 ns; the last is the most that the header can say. */
    static const char *const TIMEOUTS[] = {"27000H", "5124095H", "5124096H", "99999999H"};
    const uint64_t year_ns = 365 * 86400 * NS_PER_S;
    struct probe probe;
    probe_start(&probe, NULL);
    for (uint32_t i = 0; i < sizeof TIMEOUTS / sizeof *TIMEOUTS; i++) {
        const struct raw_call call = {.path = "/kvferry.probe.Probe/Hold", .timeout = TIMEOUTS[i]};
        int fd = raw_call_start(rpc_server_port(probe.server), &call);
        probe_wait_held(&probe, i + 1);
        uint64_t deadline_ns = probe_last_call(&probe).deadline_ns;
        cr_assert_gt(deadline_ns, clock_now_ns() + year_ns, "%s", TIMEOUTS[i]);
        cr_assert_neq(deadline_ns, DEADLINE_NONE, "%s", TIMEOUTS[i]);
        cr_assert_not(rpc_call_is_over(probe.held[i]), "%s", TIMEOUTS[i]);
        close(fd);
        probe_wait_ends(&probe, i + 1);
    }
    probe_release_held(&probe);
    probe_stop(&probe);
}
