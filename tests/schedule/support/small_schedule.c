#include "tests/schedule/support/small_schedule.h"

#include <criterion/criterion.h>

const struct schedule_options SMALL = {
    .policy = SCHEDULE_NO_EVICT,
    .n_blocks = 8,
    .block_tokens = 4,
    .batch_tokens = 16,
    .chunk_tokens = 8,
    .sequences_max = 4,
    .waiting_max = 8,
    .aging_ms = 1000,
    .tenant_share_percent = 100,
};

struct schedule *new_schedule(const struct schedule_options *options)
{
    struct schedule *schedule;
    struct error error = {""};
    cr_assert_eq(schedule_create(options, &error, &schedule), STATUS_OK, "%s", error.text);
    return schedule;
}

struct schedule_request request_of(uint32_t prompt_tokens, uint32_t max_new_tokens)
{
    return (struct schedule_request){
        .weight = 1, .prompt_tokens = prompt_tokens, .max_new_tokens = max_new_tokens};
}

schedule_id add(struct schedule *schedule, const struct schedule_request *request, uint64_t now_ms)
{
    schedule_id id;
    struct error error = {""};
    cr_assert_eq(schedule_add(schedule, request, now_ms, &error, &id), STATUS_OK, "%s", error.text);
    return id;
}

schedule_id add_plain(struct schedule *schedule, uint32_t prompt_tokens, uint32_t max_new_tokens)
{
    struct schedule_request request = request_of(prompt_tokens, max_new_tokens);
    return add(schedule, &request, 0);
}

struct schedule_changes capacity(struct schedule *schedule, uint32_t n_blocks_available)
{
    struct schedule_changes changes;
    schedule_capacity(schedule,
                      &(struct schedule_room){.n_blocks_available = n_blocks_available,
                                              .n_handovers_free = UINT32_MAX},
                      &changes);
    return changes;
}

/* Does all of the next batch; each one whose last token was computed draws another. */
struct schedule_batch compute(struct schedule *schedule)
{
    struct schedule_batch batch;
    schedule_batch(schedule, &batch);
    for (uint32_t i = 0; i < batch.n; i++)
        schedule_computed(schedule, batch.work[i].id, batch.work[i].n_tokens, batch.work[i].draws);
    return batch;
}
