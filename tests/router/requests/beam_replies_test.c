/* beam_replies: the last message of a beam search becomes the pieces and the end of each choice; a worker that tells other replies than
 * those that were asked for is at fault, and the client gets none of them. */
#include "router/requests/beam_replies.h"
#include "router/requests/generation.h"
#include "tests/router/support/door_double.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_CHOICES = 3, MAX_TOKENS = 100, REPLIES_MAX = 20, IDS_MAX = 120 };

#define STOP   KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP
#define LENGTH KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH
#define NONE   KVFERRY__V1__FINISH_REASON__FINISH_REASON_UNSPECIFIED

static struct tokenizer *tokenizer;
static struct metrics *registry;
static struct router_metrics metrics;
static struct reply_scratch scratch;
static struct door_double call;
static struct generation generation;
static uint32_t ids[IDS_MAX];
static Kvferry__Internal__V1__BeamReply replies[REPLIES_MAX], *list[REPLIES_MAX];
static Kvferry__Internal__V1__DecodeResponse message;

/* A search that was asked for, and what its worker should answer. */
static void open_search(void)
{
    struct error error = {0};
    const struct encode_input input = {.text = "In the beginning God", .text_bytes = 20};
    struct token_buffer buffer = {.ids = ids, .ids_max = IDS_MAX};
    cr_assert_eq(tokenizer_load(KVFERRY_SOURCE_DIR "/model/demo", &error, &tokenizer), STATUS_OK);
    cr_assert_eq(tokenizer_encode(tokenizer, &input, &buffer, &error), STATUS_OK);
    cr_assert(buffer.n_ids >= 3 && buffer.n_ids < IDS_MAX);
    cr_assert_eq(metrics_create("router", &registry), STATUS_OK);
    router_metrics_create(&metrics, registry);
    door_double_init(&call, "id");
    generation = (struct generation){
        .call = &call.base, .n_choices = N_CHOICES, .n_tokens = 7, .skip_special = true};
    generation.sampling.params.max_tokens = MAX_TOKENS;
    generation.sampling.params.beams = (struct beam_params){.n_beams = 4, .n_best = N_CHOICES};
    cr_assert_eq(generation_prepare(&generation, tokenizer), STATUS_OK);
    kvferry__internal__v1__decode_response__init(&message);
    message.finish_reason = STOP;
    message.n_beam_replies = N_CHOICES;
    message.beam_replies = list;
    for (uint32_t i = 0; i < REPLIES_MAX; i++) {
        kvferry__internal__v1__beam_reply__init(&replies[i]);
        replies[i].token_ids = ids;
        replies[i].n_token_ids = 3 - i % 3;
        replies[i].score = -0.5f * (float)(i + 1);
        replies[i].finish_reason = i == 1 ? LENGTH : STOP;
        list[i] = &replies[i];
    }
}

static void close_search(void)
{
    free(generation.choices);
    metrics_destroy(registry);
    tokenizer_destroy(tokenizer);
}

TestSuite(beam_replies, .init = open_search, .fini = close_search);

static void tell(void)
{
    choice_tokens(&generation.choices[0], &message, &scratch, &metrics, 5000);
}

/* As the core does it when the call has ended well. */
static void finish(enum status status)
{
    struct decode_end end;
    decode_end_take(&message, &end);
    choice_finish(&generation.choices[0], status, "", &end);
}

Test(beam_replies, each_is_told_as_a_choice_with_its_own_end)
{
    Kvferry__V1__Usage usage = KVFERRY__V1__USAGE__INIT;
    usage.cached_tokens = 4;
    usage.generated_tokens = 999;
    message.usage = &usage;
    tell();
    finish(STATUS_OK);
    cr_assert_eq(generation.left, STATUS_OK);
    cr_assert_eq(generation.status, STATUS_OK);
    cr_assert_eq(generation.n_live, 0);
    cr_assert_eq(call.n_ends, 1);
    for (uint32_t i = 0; i < N_CHOICES; i++) {
        const struct double_choice *choice = &call.choices[i];
        cr_assert(choice->has_ended && choice->n_ids == 3 - i);
        cr_expect_eq(choice->end.is_last, i == N_CHOICES - 1);
        cr_expect_eq(choice->end.reason, i == 1 ? LENGTH : STOP);
        cr_expect_eq(choice->end.matched, i == 1 ? MATCHED_NOTHING : MATCHED_TOKEN);
        cr_expect_eq(choice->end.stop_token_id, i == 1 ? 0 : ids[2 - i]);
        cr_expect(choice->end.has_beam_score);
        cr_expect_eq(choice->end.beam_score, -0.5f * (float)(i + 1));
        cr_expect_eq(choice->end.usage.generated_tokens, 3 - i);
        cr_expect_eq(choice->end.usage.prompt_tokens, 7);
        cr_expect_eq(choice->end.usage.cached_tokens, 4);
        cr_expect(choice->text_bytes > 0 &&
                  strncmp(choice->text, call.choices[0].text, choice->text_bytes) == 0);
        cr_expect_eq(generation.choices[i].first_token_ns, 5000);
    }
    cr_expect_eq(generation_n_generated(&generation), 6);
    cr_expect_eq(counter_value(metrics.series.relayed), 6);
}

Test(beam_replies, have_the_text_of_choices_that_are_drawn)
{
    static uint32_t long_ids[MAX_TOKENS];
    for (uint32_t i = 0; i < MAX_TOKENS; i++)
        long_ids[i] = ids[i % 3];
    replies[1].token_ids = long_ids; /* more than a piece has */
    replies[1].n_token_ids = MAX_TOKENS;
    tell();
    finish(STATUS_OK);
    cr_expect_eq(call.choices[1].n_ids, MAX_TOKENS);
    cr_expect_eq(call.choices[1].end.usage.generated_tokens, MAX_TOKENS);
    cr_expect(strncmp(call.choices[1].text, "In the", 6) == 0, "%s", call.choices[1].text);
}

Test(beam_replies, come_after_progress_of_the_prompt)
{
    Kvferry__Internal__V1__DecodeResponse early = KVFERRY__INTERNAL__V1__DECODE_RESPONSE__INIT;
    Kvferry__V1__PromptProgress progress = KVFERRY__V1__PROMPT_PROGRESS__INIT;
    early.prompt_progress = &progress;
    progress.done_tokens = 3;
    generation.return_progress = true;
    choice_tokens(&generation.choices[0], &early, &scratch, &metrics, 100);
    cr_expect_eq(call.n_progress, 1);
    cr_expect_eq(call.n_ids, 0);
    cr_expect_eq(generation.choices[0].first_token_ns, 0);
    tell();
    finish(STATUS_OK);
    cr_expect_eq(call.n_ends, 1);
    cr_expect_eq(generation.status, STATUS_OK);
}

static void set_stop(uint32_t i, uint32_t stop)
{
    replies[i].stop_presence_case = KVFERRY__INTERNAL__V1__BEAM_REPLY__STOP_PRESENCE_STOP;
    replies[i].stop = stop;
}

/* Each choice has a copy. */
static void add_stop(const char *text)
{
    stop_strings_add(&generation.stops, text, strlen(text));
    for (uint32_t i = 0; i < N_CHOICES; i++)
        generation.choices[i].stops = generation.stops;
}

static void expect_stop(const struct reply_end *end, const char *text)
{
    cr_expect_eq(end->reason, STOP);
    cr_expect_eq(end->matched, MATCHED_STRING);
    cr_assert_eq(end->stop_string.len, strlen(text));
    cr_expect_arr_eq(end->stop_string.data, text, strlen(text));
}

Test(beam_replies, end_before_the_stop_string_that_they_end_with)
{
    add_stop("zzz");
    add_stop("n the");
    set_stop(0, 1);
    tell();
    finish(STATUS_OK);
    expect_stop(&call.choices[0].end, "n the");
    cr_expect_eq(call.choices[0].text_bytes, 1);
    cr_expect_eq(call.choices[0].text[0], 'I');
    cr_expect_eq(call.choices[0].end.beam_score, -0.5f);
}

/* As that of a special token, which the text leaves out. */
Test(beam_replies, name_a_stop_string_that_is_not_in_the_text)
{
    add_stop("zzz");
    set_stop(2, 0);
    tell();
    finish(STATUS_OK);
    expect_stop(&call.choices[2].end, "zzz");
    cr_expect_neq(call.choices[0].end.matched, MATCHED_STRING);
    cr_expect_eq(call.choices[2].end.usage.generated_tokens, 1);
    cr_expect_gt(call.choices[2].text_bytes, 0);
}

/* A power of the length may be none of float32. */
Test(beam_replies, may_have_an_infinite_score)
{
    replies[2].score = -INFINITY;
    tell();
    finish(STATUS_OK);
    cr_expect_eq(call.choices[2].end.beam_score, -INFINITY);
}

Test(beam_replies, a_call_that_fails_fails_all_choices_once)
{
    finish(STATUS_PEER_LOST);
    cr_expect_eq(call.n_ends, 1);
    cr_expect_eq(call.failure.status, STATUS_PEER_LOST);
    cr_expect_eq(generation.n_live, 0);
    cr_expect_eq(generation.status, STATUS_PEER_LOST);
    for (uint32_t i = 0; i < N_CHOICES; i++)
        cr_expect(generation.choices[i].is_finished && !call.choices[i].has_ended);
}

Test(beam_replies, a_client_that_left_is_told_nothing_more)
{
    call.refuses = STATUS_CANCELLED;
    tell();
    cr_expect(generation.is_unheard);
    cr_expect_eq(generation.choices[1].n_generated, 0, "the first one was not taken");
    generation.left = STATUS_CANCELLED;
    finish(STATUS_CANCELLED);
    cr_expect_eq(generation.n_live, 0);
    cr_expect_eq(generation.status, STATUS_CANCELLED);
}

Test(beam_replies, a_reply_without_room_ends_the_request)
{
    call.text_bytes_max = 4;
    tell();
    cr_expect_eq(generation.left, STATUS_REPLY_TOO_LONG);
    cr_expect(generation_is_over(&generation));
    finish(STATUS_CANCELLED);
    cr_expect_eq(call.failure.status, STATUS_REPLY_TOO_LONG);
    cr_expect_eq(call.n_ends, 1);
}

/* ---- workers at fault ---- */

static void set_nothing(void)
{
    message.n_beam_replies = 0;
}

static void set_fewer(void)
{
    message.n_beam_replies = N_CHOICES - 1;
}

static void set_more(void)
{
    message.n_beam_replies = N_CHOICES + 1;
}

static void set_many(void)
{
    message.n_beam_replies = REPLIES_MAX;
}

static void set_too_long(void)
{
    replies[1].n_token_ids = MAX_TOKENS + 1;
}

static void set_empty(void)
{
    replies[2].n_token_ids = 0;
}

static void set_unended(void)
{
    replies[0].finish_reason = NONE;
}

static void set_foreign_reason(void)
{
    replies[2].finish_reason = (Kvferry__V1__FinishReason)77;
}

static void set_nan(void)
{
    replies[0].score = NAN;
}

static void set_foreign_stop(void)
{
    set_stop(0, generation.stops.n);
}

static void set_stop_at_length(void)
{
    stop_strings_add(&generation.stops, "x", 1);
    set_stop(1, 0);
}

static void set_no_end(void)
{
    message.finish_reason = NONE;
}

static void set_foreign_end(void)
{
    message.finish_reason = (Kvferry__V1__FinishReason)9;
}

static void set_tokens(void)
{
    message.n_token_ids = 2;
    message.token_ids = ids;
}

static void set_tokens_alone(void)
{
    set_tokens();
    set_no_end();
    set_nothing();
}

static struct lie {
    void (*set)(void);
    char what[48];
} LIES[] = {
    {set_nothing, "no replies"},
    {set_fewer, "fewer replies"},
    {set_more, "more replies"},
    {set_many, "more replies than anybody may ask for"},
    {set_too_long, "a reply over max_tokens"},
    {set_empty, "a reply without tokens"},
    {set_unended, "a reply without a reason"},
    {set_foreign_reason, "a reply with an unknown reason"},
    {set_nan, "a score that is no number"},
    {set_foreign_stop, "a stop string that nobody asked for"},
    {set_stop_at_length, "a stop string that ends nothing"},
    {set_no_end, "replies before the end"},
    {set_foreign_end, "an unknown end"},
    {set_tokens, "tokens beside replies"},
    {set_tokens_alone, "tokens in place of replies"},
};

Test(beam_replies, of_a_worker_at_fault_nothing_is_told)
{
    for (size_t i = 0; i < sizeof LIES / sizeof *LIES; i++) {
        close_search();
        open_search();
        LIES[i].set();
        message.usage = NULL;
        tell();
        cr_expect_eq(generation.left, STATUS_BUG, "%s", LIES[i].what);
        cr_expect(generation_is_over(&generation), "%s", LIES[i].what);
        cr_expect_eq(call.n_ids, 0, "%s", LIES[i].what);
        choice_finish(&generation.choices[0], STATUS_CANCELLED, "", NULL);
        cr_expect_eq(call.failure.status, STATUS_BUG, "%s", LIES[i].what);
        cr_expect_eq(call.n_ends, 1, "%s", LIES[i].what);
        cr_expect_eq(generation.n_live, 0, "%s", LIES[i].what);
    }
}

Test(beam_replies, told_twice_are_a_fault)
{
    tell();
    tell();
    cr_expect_eq(generation.left, STATUS_BUG);
    cr_expect_eq(call.n_ids, 6);
    choice_finish(&generation.choices[0], STATUS_CANCELLED, "", NULL);
    cr_expect_eq(call.failure.status, STATUS_BUG);
}

Test(beam_replies, of_a_request_that_draws_are_not_looked_at)
{
    generation.sampling.params.beams = (struct beam_params){0};
    set_nothing();
    set_tokens();
    message.n_beam_replies = REPLIES_MAX;
    message.finish_reason = LENGTH;
    tell();
    cr_expect_eq(generation.left, STATUS_OK);
    cr_expect_eq(call.n_ids, 2);
    finish(STATUS_OK);
    cr_expect(call.choices[0].has_ended && !call.choices[0].end.has_beam_score);
    cr_expect_eq(generation.n_live, N_CHOICES - 1, "the others have calls of their own");
}
