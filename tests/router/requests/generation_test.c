/* generation: the tokens of a worker become text that ends before the first stop string, however
 * the tokens' borders and the messages' cut it; nothing beyond max_tokens is taken. */
#include "router/requests/generation.h"
#include "tests/router/support/door_double.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKENS_MAX 128u

/* A request of a double: what leaves is what that keeps. */
struct rig {
    struct tokenizer *tokenizer;
    struct reply_scratch scratch;
    struct door_double call;
    struct metrics *registry;
    struct router_metrics metrics;
    struct generation generation;
    struct choice *choice;    /* its one */
    uint32_t ids[TOKENS_MAX]; /* of the text */
    uint32_t n_ids;
};

static void open_rig(struct rig *rig, const char *text)
{
    struct error error = {0};
    memset(rig, 0, sizeof *rig);
    cr_assert_eq(tokenizer_load(KVFERRY_SOURCE_DIR "/model/demo", &error, &rig->tokenizer),
                 STATUS_OK, "%s", error.text);
    cr_assert_eq(metrics_create("router", &rig->registry), STATUS_OK);
    router_metrics_create(&rig->metrics, rig->registry);
    struct encode_input input = {.text = text, .text_bytes = strlen(text)};
    struct token_buffer buffer = {.ids = rig->ids, .ids_max = TOKENS_MAX};
    cr_assert_eq(tokenizer_encode(rig->tokenizer, &input, &buffer, &error), STATUS_OK);
    rig->n_ids = (uint32_t)buffer.n_ids;
}

static void close_rig(struct rig *rig)
{
    free(rig->generation.choices);
    metrics_destroy(rig->registry);
    tokenizer_destroy(rig->tokenizer);
}

/* A new request with that stop string (NULL: none). */
static void prepare(struct rig *rig, const char *stop, uint32_t max_tokens, size_t reply_bytes_max)
{
    free(rig->generation.choices);
    memset(&rig->generation, 0, sizeof rig->generation);
    door_double_init(&rig->call, "id");
    rig->call.text_bytes_max = reply_bytes_max;
    rig->generation.call = &rig->call.base;
    rig->generation.sampling.params.max_tokens = max_tokens;
    rig->generation.n_choices = 1;
    rig->generation.skip_special = true;
    if (stop)
        stop_strings_add(&rig->generation.stops, stop, strlen(stop));
    cr_assert_eq(generation_prepare(&rig->generation, rig->tokenizer), STATUS_OK);
    rig->choice = rig->generation.choices;
}

/* The text's tokens in messages of piece tokens. */
static void feed(struct rig *rig, uint32_t piece)
{
    for (uint32_t at = 0; at < rig->n_ids; at += piece) {
        Kvferry__Internal__V1__DecodeResponse message =
            KVFERRY__INTERNAL__V1__DECODE_RESPONSE__INIT;
        message.n_token_ids = rig->n_ids - at < piece ? rig->n_ids - at : piece;
        message.token_ids = rig->ids + at;
        choice_tokens(rig->choice, &message, &rig->scratch, &rig->metrics, 1000 + at);
    }
}

static const char *reply(const struct rig *rig)
{
    return rig->call.text;
}

static const char TEXT[] = "And God saw the light, that it was good: and God divided the light.";

Test(generation, a_stop_string_is_found_across_tokens_and_messages)
{
    struct rig rig;
    open_rig(&rig, TEXT);
    cr_assert_gt(rig.n_ids, 10, "there are borders");
    for (size_t begin = 0; begin < strlen(TEXT) - 6; begin++) {
        char stop[7];
        snprintf(stop, sizeof stop, "%.6s", TEXT + begin);
        size_t first = (size_t)(strstr(TEXT, stop) - TEXT);
        for (uint32_t piece = 1; piece <= rig.n_ids; piece += 3) {
            prepare(&rig, stop, TOKENS_MAX, 4096);
            feed(&rig, piece);
            cr_assert(rig.choice->stops.is_found, "\"%s\" by %u", stop, piece);
            cr_assert(rig.choice->is_stopping);
            cr_assert_eq(strlen(reply(&rig)), first, "\"%s\" by %u: %s", stop, piece, reply(&rig));
            cr_assert_eq(strncmp(reply(&rig), TEXT, first), 0);
        }
    }
    close_rig(&rig);
}

Test(generation, a_tail_that_may_become_a_stop_string_is_held_back)
{
    struct rig rig;
    open_rig(&rig, TEXT);
    prepare(&rig, "light.?", TOKENS_MAX, 4096);
    feed(&rig, 1);
    cr_assert_not(rig.choice->is_stopping);
    size_t n = strlen(TEXT) - strlen("light.");
    cr_assert_eq(strlen(reply(&rig)), n, "%s", reply(&rig));
    char rest[STOP_STRING_BYTES_MAX];
    cr_assert_eq(stop_strings_finish(&rig.choice->stops, rest), 6);
    cr_assert_arr_eq(rest, "light.", 6);
    close_rig(&rig);
}

Test(generation, keeps_the_figures_that_came_with_tokens)
{
    struct rig rig;
    open_rig(&rig, TEXT);
    prepare(&rig, "God", TOKENS_MAX, 4096);
    Kvferry__V1__Timing timing = KVFERRY__V1__TIMING__INIT;
    timing.kv_bytes_received = 4096;
    Kvferry__Internal__V1__DecodeResponse message = KVFERRY__INTERNAL__V1__DECODE_RESPONSE__INIT;
    message.n_token_ids = 1;
    message.token_ids = rig.ids;
    message.timing = &timing;
    choice_tokens(rig.choice, &message, &rig.scratch, &rig.metrics, 1000);
    feed(&rig, 1);
    cr_assert(rig.choice->stops.is_found);
    cr_assert_not(rig.choice->end.is_there, "it was not the last message");
    cr_assert(rig.choice->end.has_timing);
    cr_assert_eq(rig.choice->end.kv_bytes_received, 4096);
    close_rig(&rig);
}

Test(generation, tokens_after_the_stop_are_not_counted)
{
    struct rig rig;
    open_rig(&rig, TEXT);
    prepare(&rig, "God", TOKENS_MAX, 4096);
    feed(&rig, rig.n_ids); /* one message with all of them */
    uint32_t n_together = rig.choice->n_generated;
    cr_assert_str_eq(reply(&rig), "And ");
    cr_assert_lt(n_together, rig.n_ids);
    prepare(&rig, "God", TOKENS_MAX, 4096);
    feed(&rig, 1);
    cr_assert_eq(rig.choice->n_generated, n_together);
    cr_assert_eq(rig.call.n_ids, n_together);
    cr_assert_arr_eq(rig.call.ids, rig.ids, n_together * sizeof *rig.ids);
    close_rig(&rig);
}

Test(generation, a_worker_that_sends_too_much_overruns_nothing)
{
    struct rig rig;
    open_rig(&rig, TEXT);
    for (uint32_t piece = 1; piece <= rig.n_ids; piece++) {
        prepare(&rig, NULL, 5, 4096);
        feed(&rig, piece);
        cr_assert_eq(rig.choice->n_generated, 5, "by %u", piece);
        cr_assert_eq(strncmp(reply(&rig), TEXT, strlen(reply(&rig))), 0);
        cr_assert_lt(strlen(reply(&rig)), strlen(TEXT));
    }
    close_rig(&rig);
}

Test(generation, a_reply_over_its_bound_stops)
{
    struct rig rig;
    open_rig(&rig, TEXT);
    prepare(&rig, NULL, TOKENS_MAX, 20);
    feed(&rig, 1);
    cr_assert_eq(rig.generation.left, STATUS_REPLY_TOO_LONG);
    cr_assert(generation_is_over(&rig.generation));
    cr_assert_lt(strlen(reply(&rig)), 20);
    prepare(&rig, NULL, TOKENS_MAX, strlen(TEXT) + 1);
    feed(&rig, 1);
    cr_assert_eq(rig.generation.left, STATUS_OK);
    cr_assert_str_eq(reply(&rig), TEXT);
    close_rig(&rig);
}

Test(generation, a_door_without_memory_stops_it_and_one_that_is_over_only_silences_it)
{
    struct rig rig;
    open_rig(&rig, TEXT);
    prepare(&rig, NULL, TOKENS_MAX, 4096);
    rig.call.refuses = STATUS_NO_MEMORY;
    feed(&rig, 1);
    cr_assert_eq(rig.generation.left, STATUS_NO_MEMORY);
    cr_assert(generation_is_over(&rig.generation));
    prepare(&rig, NULL, TOKENS_MAX, 4096);
    rig.call.refuses = STATUS_CANCELLED;
    feed(&rig, 1);
    cr_assert_eq(rig.generation.left, STATUS_OK, "the call's own end says how");
    cr_assert(rig.generation.is_unheard && !generation_is_over(&rig.generation));
    cr_assert_eq(rig.choice->n_generated, 1);
    close_rig(&rig);
}

Test(generation, the_first_token_is_stamped_once_and_tokens_are_counted)
{
    struct rig rig;
    open_rig(&rig, TEXT);
    prepare(&rig, NULL, TOKENS_MAX, 4096);
    feed(&rig, 1);
    cr_assert_eq(rig.choice->first_token_ns, 1000);
    cr_assert_eq(rig.choice->last_token_ns, 1000 + rig.n_ids - 1);
    cr_assert_eq(counter_value(rig.metrics.series.relayed), rig.n_ids);
    close_rig(&rig);
}

/* Of Complete: the worker tells it unasked. */
Test(generation, progress_of_a_prompt_is_no_token)
{
    struct rig rig;
    Kvferry__Internal__V1__DecodeResponse message = KVFERRY__INTERNAL__V1__DECODE_RESPONSE__INIT;
    Kvferry__V1__PromptProgress progress = KVFERRY__V1__PROMPT_PROGRESS__INIT;
    open_rig(&rig, TEXT);
    prepare(&rig, NULL, TOKENS_MAX, 4096);
    message.prompt_progress = &progress;
    choice_tokens(rig.choice, &message, &rig.scratch, &rig.metrics, 500);
    cr_assert_eq(rig.choice->first_token_ns, 0);
    cr_assert_not(rig.generation.is_unheard);
    feed(&rig, 1);
    cr_assert_eq(rig.choice->first_token_ns, 1000);
    cr_assert_eq(counter_value(rig.metrics.series.relayed), rig.n_ids);
    cr_assert_str_eq(reply(&rig), TEXT);
    close_rig(&rig);
}

static void attempt_id(const char *request_id, uint64_t attempt, char id_out[REQUEST_ID_MAX + 1])
{
    static const struct hash_key KEY = {.bytes = {1, 2, 3}};
    struct generation generation = {.n_choices = 1};
    struct choice choice = {.generation = &generation, .n_attempts = 1};
    snprintf(generation.request_id, sizeof generation.request_id, "%s", request_id);
    choice_attempt_id(&choice, &KEY, attempt, id_out);
}

Test(generation, no_two_attempts_share_an_id)
{
    char longest[REQUEST_ID_MAX + 1];
    char first[REQUEST_ID_MAX + 1], second[REQUEST_ID_MAX + 1];
    memset(longest, 'a', REQUEST_ID_MAX);
    longest[REQUEST_ID_MAX] = '\0';
    attempt_id(longest, 1, first);
    attempt_id(longest, 2, second);
    cr_assert_str_neq(first, second);
    cr_assert_leq(strlen(first), REQUEST_ID_MAX);

    attempt_id("short", 3, first);
    attempt_id("short", 4, second);
    cr_assert_eq(strncmp(first, "short~1~", 8), 0, "a log still shows which request it is");
    cr_assert_str_neq(first, second, "another request of that name, or the same once more");
}

static const char *fed_with(struct rig *rig, const char *stop, uint32_t min_tokens, bool is_kept,
                            uint32_t piece)
{
    prepare(rig, stop, TOKENS_MAX, 4096);
    rig->generation.sampling.params.min_tokens = min_tokens;
    rig->choice->stops.is_kept = is_kept;
    feed(rig, piece);
    return reply(rig);
}

/* " light" is in the text twice; the first is one of its first tokens. */
Test(generation, stop_strings_count_behind_min_tokens)
{
    struct rig rig;
    open_rig(&rig, TEXT);
    for (uint32_t piece = 1; piece <= rig.n_ids; piece += 4) {
        cr_assert_str_eq(fed_with(&rig, " light", 0, false, piece), "And God saw the");
        cr_assert_str_eq(fed_with(&rig, " light", 0, true, piece), "And God saw the light");
        cr_assert_str_eq(fed_with(&rig, " light", rig.n_ids / 2, false, piece),
                         "And God saw the light, that it was good: and God divided the");
        cr_assert_str_eq(fed_with(&rig, " light", rig.n_ids, false, piece), TEXT);
        cr_assert_not(rig.choice->stops.is_found);
    }
    close_rig(&rig);
}

Test(generation, special_tokens_are_in_the_text_if_asked_for)
{
    struct rig rig;
    open_rig(&rig, TEXT);
    const struct special_ids special = tokenizer_special_ids(rig.tokenizer);
    rig.ids[rig.n_ids++] = special.eos;
    prepare(&rig, NULL, TOKENS_MAX, 4096);
    rig.generation.skip_special = false;
    token_decoder_init(&rig.choice->decoder, rig.tokenizer, rig.generation.skip_special);
    feed(&rig, 3);
    cr_assert_str_eq(reply(&rig) + strlen(TEXT), "<|end_of_text|>");
    close_rig(&rig);
}
