#include "router/watch/timeline.h"

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The part of that length that ends there, and does not begin before `begin`. */
static struct timeline_part ending_at(uint64_t end_us, uint64_t us, uint64_t begin_us)
{
    uint64_t length_us = smaller(us, end_us > begin_us ? end_us - begin_us : 0);
    return (struct timeline_part){end_us - length_us, length_us};
}

void timeline_make(const struct timeline_times *times, struct timeline *timeline_out)
{
    uint64_t total_us = times->total_us;
    uint64_t first_us = smaller(times->first_token_us ? times->first_token_us : total_us, total_us);
    uint64_t kv_us = smaller(times->kv_there_us ? times->kv_there_us : first_us, total_us);
    struct timeline timeline = {.total_us = total_us};
    timeline.prefill = ending_at(first_us, times->prefill_us, 0);
    timeline.queue = ending_at(timeline.prefill.from_us, times->queue_us, 0);
    timeline.route = (struct timeline_part){0, timeline.queue.from_us};
    timeline.transfer = ending_at(kv_us > first_us ? kv_us : first_us, times->transfer_us,
                                  timeline.prefill.from_us);
    timeline.decode = (struct timeline_part){first_us,
                                             smaller(times->decode_us, total_us - first_us)};
    *timeline_out = timeline;
}
