/* timeline: stages lie on one axis in their order, keep their measured lengths, and never leave it. */
#include "router/watch/timeline.h"

#include <criterion/criterion.h>

static void expect_part(const struct timeline_part *part, uint64_t from_us, uint64_t us,
                        const char *name)
{
    cr_expect_eq(part->from_us, from_us, "%s from %llu", name, (unsigned long long)part->from_us);
    cr_expect_eq(part->us, us, "%s of %llu", name, (unsigned long long)part->us);
}

Test(timeline, a_prompt_of_a_context_worker_overlaps_its_transfer)
{
    const struct timeline_times times = {.first_token_us = 1000,
                                         .kv_there_us = 1100,
                                         .total_us = 3000,
                                         .queue_us = 50,
                                         .prefill_us = 800,
                                         .transfer_us = 400,
                                         .decode_us = 1900};
    struct timeline timeline;
    timeline_make(&times, &timeline);
    expect_part(&timeline.route, 0, 150, "route");
    expect_part(&timeline.queue, 150, 50, "queue");
    expect_part(&timeline.prefill, 200, 800, "prefill");
    expect_part(&timeline.transfer, 700, 400, "transfer");
    expect_part(&timeline.decode, 1000, 1900, "decode");
    cr_expect_eq(timeline.total_us, 3000);
}

Test(timeline, a_request_without_tokens_has_a_prefill_until_its_end)
{
    const struct timeline_times times = {.total_us = 500, .prefill_us = 300};
    struct timeline timeline;
    timeline_make(&times, &timeline);
    expect_part(&timeline.route, 0, 200, "route");
    expect_part(&timeline.prefill, 200, 300, "prefill");
    expect_part(&timeline.decode, 500, 0, "decode");
    expect_part(&timeline.transfer, 500, 0, "transfer");
}

/* Figures of a worker may be anything. */
Test(timeline, lengths_that_do_not_fit_are_cut)
{
    static const uint64_t values[] = {0, 1, 700, 1000, 5000, UINT64_MAX};
    enum { N = sizeof values / sizeof *values };
    for (unsigned i = 0; i < N * N * N * N; i++) {
        const struct timeline_times times = {.first_token_us = values[i % N],
                                             .kv_there_us = values[i / N % N],
                                             .total_us = 1000,
                                             .queue_us = values[i / N / N % N],
                                             .prefill_us = values[i / N / N / N],
                                             .transfer_us = values[i % N],
                                             .decode_us = values[i / N % N]};
        struct timeline timeline;
        timeline_make(&times, &timeline);
        const struct timeline_part parts[] = {timeline.route, timeline.queue, timeline.prefill,
                                              timeline.transfer, timeline.decode};
        for (unsigned p = 0; p < sizeof parts / sizeof *parts; p++)
            cr_assert(parts[p].from_us <= 1000 && parts[p].us <= 1000 - parts[p].from_us,
                      "part %u of case %u", p, i);
        cr_assert_eq(timeline.route.us, timeline.queue.from_us);
        cr_assert_eq(timeline.queue.from_us + timeline.queue.us, timeline.prefill.from_us);
        cr_assert_geq(timeline.transfer.from_us, timeline.prefill.from_us);
    }
}
