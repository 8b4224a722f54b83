/* choice_end: the last message has the worker's figures, those so far when its last message
 * never came, the router's own when there are none; a stop string is the reason even when the worker names another. */
#include "router/requests/choice_end.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct decode_end END = {
    .is_there = true,
    .has_timing = true,
    .reason = KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH,
    .prompt_tokens = 999,
    .cached_tokens = 16,
    .generated_tokens = 999,
    .queue_us = 1,
    .prefill_us = 2,
    .transfer_us = 3,
    .decode_us = 4,
    .first_token_us = 999,
    .kv_bytes_received = 5,
    .kv_tokens_received = 6,
    .kv_tokens_recomputed = 7,
    .context_worker = "c:1",
    .generation_worker = "g:1",
    .transport = "am-tcp",
    .prefill_place = KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKER,
    .prefill_reason = "why",
};

static struct generation GENERATION = {
    .n_tokens = 20, .return_timing = true, .began_ns = 1000000, .n_choices = 1};

/* With that end; NULL: none came. */
static struct choice *sample(const struct decode_end *end)
{
    static struct choice choice;
    memset(&choice, 0, sizeof choice);
    GENERATION.return_timing = true;
    choice.generation = &GENERATION;
    choice.n_generated = 8;
    choice.first_token_ns = 3000000;
    choice.last_token_ns = 10000000;
    snprintf(choice.generation_worker, sizeof choice.generation_worker, "%s", "g:2");
    snprintf(choice.context_worker, sizeof choice.context_worker, "%s", "c:2");
    if (end)
        choice.end = *end;
    return &choice;
}

Test(choice_end, has_the_workers_figures_and_the_routers_counts)
{
    struct reply_end end;
    choice_end_make(sample(&END), &end);
    cr_assert_eq(end.reason, KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH);
    cr_assert_eq(end.usage.prompt_tokens, 20);
    cr_assert_eq(end.usage.generated_tokens, 8);
    cr_assert_eq(end.usage.cached_tokens, 16);
    cr_assert_eq(end.timing.queue_us, 1);
    cr_assert_eq(end.timing.prefill_us, 2);
    cr_assert_eq(end.timing.transfer_us, 3);
    cr_assert_eq(end.timing.decode_us, 4);
    cr_assert_eq(end.timing.first_token_us, 2000, "as the router saw it");
    cr_assert_eq(end.timing.kv_bytes_received, 5);
    cr_assert_eq(end.timing.kv_tokens_received, 6);
    cr_assert_eq(end.timing.kv_tokens_recomputed, 7);
    cr_assert_str_eq(end.timing.context_worker, "c:1");
    cr_assert_str_eq(end.timing.generation_worker, "g:1");
    cr_assert_str_eq(end.timing.transport, "am-tcp");
    cr_assert_eq(end.timing.prefill_place,
                 KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_CONTEXT_WORKER);
    cr_assert_str_eq(end.timing.prefill_reason, "why");
    cr_assert(end.has_timing);
}

Test(choice_end, has_its_own_figures_without_the_workers)
{
    {
        struct reply_end end;
        choice_end_make(sample(NULL), &end);
        cr_assert_eq(end.reason, KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP);
        cr_assert_eq(end.usage.cached_tokens, 0);
        cr_assert_eq(end.timing.decode_us, 7000);
        cr_assert_eq(end.timing.kv_bytes_received, 0);
        cr_assert_str_eq(end.timing.generation_worker, "g:2");
        cr_assert_str_eq(end.timing.context_worker, "c:2");
    }
}

Test(choice_end, has_the_figures_so_far_when_the_last_message_never_came)
{
    struct reply_end end;
    struct choice *choice = sample(&END);
    choice->end.is_there = false;
    stop_strings_add(&choice->stops, "end", 3);
    choice->stops.is_found = true;
    choice_end_make(choice, &end);
    cr_assert_eq(end.reason, KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP);
    cr_assert_eq(end.usage.cached_tokens, 16);
    cr_assert_eq(end.timing.transfer_us, 3);
    cr_assert_eq(end.timing.kv_bytes_received, 5);
    cr_assert_str_eq(end.timing.context_worker, "c:1");
    cr_assert_eq(end.timing.decode_us, 7000, "decoding went on after those figures");
}

Test(choice_end, a_stop_string_is_the_reason)
{
    struct reply_end end;
    struct choice *choice = sample(&END);
    stop_strings_add(&choice->stops, "end", 3);
    choice->stops.is_found = true;
    GENERATION.return_timing = false;
    choice_end_make(choice, &end);
    cr_assert_eq(end.reason, KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP);
    cr_assert_not(end.has_timing);
}

Test(choice_end, says_which_stop_string_or_token_ended_it)
{
    struct reply_end end;
    struct choice *choice = sample(&END);
    choice->last_token_id = 77;
    choice_end_make(choice, &end);
    cr_assert_eq(end.matched, MATCHED_NOTHING, "the length ended it");
    choice->end.reason = KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP;
    choice_end_make(choice, &end);
    cr_assert_eq(end.matched, MATCHED_TOKEN);
    cr_assert_eq(end.stop_token_id, 77);
    choice->end.is_complete = true;
    choice_end_make(choice, &end);
    cr_assert_eq(end.matched, MATCHED_NOTHING, "its constraint ended it");
    cr_assert_eq(end.stop_token_id, 0);

    char out[64];
    stop_strings_add(&choice->stops, "never", 5);
    stop_strings_add(&choice->stops, "a\0b", 3);
    stop_strings_push(&choice->stops, "xa\0by", 5, out);
    choice_end_make(choice, &end);
    cr_assert_eq(end.matched, MATCHED_STRING);
    cr_assert_eq(end.stop_string.len, 3);
    cr_assert_arr_eq(end.stop_string.data, "a\0b", 3);
}

Test(choice_end, without_tokens_there_is_no_first)
{
    struct reply_end end;
    struct choice *choice = sample(NULL);
    choice->first_token_ns = choice->last_token_ns = 0;
    choice->n_generated = 0;
    choice_end_make(choice, &end);
    cr_assert_eq(end.timing.first_token_us, 0);
    cr_assert_eq(end.timing.decode_us, 0);
}
