/* beam_stops: the token that completes a stop string is the one of Transformers' rule, however the text is split; of several the one that
 * ends first, the longest of those that end together. */
#include "model/sampling/beam_stops.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(beam_stops, .description = ONE_THREAD);

enum { TOKENS_MAX = 8 };

static void add(struct stop_texts *texts, const char *text)
{
    texts->bytes[texts->n] = (uint32_t)strlen(text);
    texts->texts[texts->n++] = text;
}

/* stops and tokens end with NULL; found: the stop string that the last token completes; NONE: no token completes one. */
static struct row {
    const char *stops[TOKENS_MAX], *tokens[TOKENS_MAX];
    uint32_t found;
} ROWS[] = {
    {{"stop"}, {"st", "op"}, 0},
    {{"stop"}, {"stop"}, 0},
    {{"stop"}, {"st", "opera"}, 0},
    {{"stop"}, {"sto", "pper"}, 0},
    {{"stop"}, {"las", "topper"}, 0},
    {{"stop"}, {"s", "to", "pped"}, 0},
    {{"stop"}, {"st", "", "op"}, 0},
    {{"stop"}, {"st", "ep", "sto"}, BEAM_STOP_NONE},
    {{"aab"}, {"a", "a", "a", "b"}, 0},
    {{"abab"}, {"ab", "aab", "ab"}, 0},
    {{"abcabd"}, {"abcabcab", "d"}, 0},
    {{"\xc3\xa9"}, {"\xc3", "\xa9"}, 0},
    {{"\xc3\xa9"}, {"\xc3", "\xa8\xa9"}, BEAM_STOP_NONE},
    {{"bc", "abc", "c"}, {"a", "bc"}, 1},
    {{"bcd", "c"}, {"abcd"}, 1},
    {{"x", "\n"}, {"a\nx"}, 1},
};

static uint32_t run(const struct row *row)
{
    struct stop_texts texts = {0};
    struct beam_stops *stops;
    struct beam_stop_state state = {{0}};
    uint32_t found = BEAM_STOP_NONE;
    for (size_t i = 0; row->stops[i]; i++)
        add(&texts, row->stops[i]);
    cr_assert_eq(beam_stops_create(&texts, &stops), STATUS_OK);
    for (size_t i = 0; row->tokens[i]; i++) {
        found = beam_stops_push(stops, &state, row->tokens[i], strlen(row->tokens[i]));
        cr_expect(found == BEAM_STOP_NONE || !row->tokens[i + 1], "%s: before the last token",
                  row->stops[0]);
    }
    beam_stops_destroy(stops);
    return found;
}

Test(beam_stops, are_completed_by_a_token_that_they_end_in)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        cr_expect_eq(run(&ROWS[i]), ROWS[i].found, "row %zu", i);
}

Test(beam_stops, may_hold_a_zero_byte_and_have_their_most)
{
    static char longest[STOP_STRING_BYTES_MAX];
    struct stop_texts texts = {.n = 1, .bytes = {3}, .texts = {"a\0b"}};
    struct beam_stops *stops;
    struct beam_stop_state state = {{0}};
    memset(longest, 'z', sizeof longest);
    for (; texts.n < STOP_STRINGS_MAX; texts.n++) {
        texts.bytes[texts.n] = sizeof longest;
        texts.texts[texts.n] = longest;
    }
    cr_assert_eq(beam_stops_create(&texts, &stops), STATUS_OK);
    cr_expect_eq(beam_stops_push(stops, &state, "a\0", 2), BEAM_STOP_NONE);
    cr_expect_eq(beam_stops_push(stops, &state, "b", 1), 0);
    state = (struct beam_stop_state){{0}};
    cr_expect_eq(beam_stops_push(stops, &state, longest, sizeof longest - 1), BEAM_STOP_NONE);
    cr_expect_eq(beam_stops_push(stops, &state, "z", 1), 1);
    beam_stops_destroy(stops);
    beam_stops_destroy(NULL);
}

/* Where the first stop string ends in a text, by looking for each. */
static size_t find_end(const char *text, size_t n_bytes, const struct stop_texts *texts)
{
    for (size_t end = 1; end <= n_bytes; end++)
        for (uint32_t i = 0; i < texts->n; i++)
            if (texts->bytes[i] <= end &&
                memcmp(text + end - texts->bytes[i], texts->texts[i], texts->bytes[i]) == 0)
                return end;
    return n_bytes + 1;
}

Test(beam_stops, of_any_text_are_found_where_a_search_finds_them)
{
    enum { N_ROUNDS = 20000, N_BYTES = 24 };
    uint32_t random = 1;
    for (int round = 0; round < N_ROUNDS; round++) {
        struct stop_texts texts = {0};
        struct beam_stops *stops;
        struct beam_stop_state state = {{0}};
        char words[3][8], text[N_BYTES];
        for (; texts.n < 3; texts.n++) {
            texts.bytes[texts.n] = 1 + (random >> 8) % 7;
            texts.texts[texts.n] = words[texts.n];
            for (uint32_t i = 0; i < texts.bytes[texts.n]; i++)
                words[texts.n][i] = (char)('a' +
                                           ((random = random * 1664525 + 1013904223) >> 16) % 2);
        }
        for (size_t i = 0; i < N_BYTES; i++)
            text[i] = (char)('a' + ((random = random * 1664525 + 1013904223) >> 16) % 2);
        const size_t end = find_end(text, N_BYTES, &texts);
        cr_assert_eq(beam_stops_create(&texts, &stops), STATUS_OK);
        size_t at = 0;
        for (size_t n; at < N_BYTES && at < end; at += n) {
            n = 1 + (random >> 20) % 4;
            n = at + n <= N_BYTES ? n : N_BYTES - at;
            const bool is_found = beam_stops_push(stops, &state, text + at, n) != BEAM_STOP_NONE;
            cr_assert_eq(is_found, end > at && end <= at + n, "round %d, byte %zu", round, at);
        }
        beam_stops_destroy(stops);
    }
}
