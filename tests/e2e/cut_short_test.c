/* A reader that does not read, and a deadline that passes while tokens come, are counted and logged by
 * the router as what they are, not as a client that left. */

#include "support/raw_generate.h"

#include <criterion/criterion.h>
#include <unistd.h>

enum { N_CALLS = 64 };

/* These clients acknowledge nothing either; on a slow machine their connections would end for that first. */
#define PATIENT "--relay-settings-ms", "1h", "--relay-stall-ms", "1h"

/* N_CALLS long answers that nobody reads. */
static void run(const char *const *router, const char *timeout, const char *reason)
{
    struct cluster cluster;
    int calls[N_CALLS];
    cluster_start(&cluster,
                  &(struct cluster_options){.n_contexts = 1, .n_generations = 1, .router = router});
    for (uint32_t i = 0; i < N_CALLS; i++)
        calls[i] = raw_generate_start(&cluster, "In the beginning", 1900, timeout);
    requests_wait_ended(&cluster, N_CALLS);
    cr_assert_eq(requests_ended(&cluster, "CANCELLED"), 0);
    cr_assert_eq(requests_ended(&cluster, reason), N_CALLS);
    for (uint32_t i = 0; i < N_CALLS; i++)
        close(calls[i]);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

Test(cut_short, a_reader_that_is_too_slow_is_called_that)
{
    static const char *const ROUTER[] = {"--stream-buffer-bytes-max", "4096", PATIENT, NULL};
    run(ROUTER, NULL, "SLOW_READER");
}

Test(cut_short, a_deadline_among_tokens_is_called_that)
{
    static const char *const ROUTER[] = {PATIENT, NULL};
    run(ROUTER, "2S", "DEADLINE");
}
