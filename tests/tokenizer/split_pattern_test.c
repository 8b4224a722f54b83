/* split_pattern: a match that sees a window of the text is the match in the whole of it, and what all
 * matches of a text spend is bounded by its length. */
#include "tokenizer/pattern/split_pattern.c"

#include <criterion/criterion.h>

#define TEXT_MAX 4096

static const char *const PATTERNS[] = {
    ("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
     "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"),
    ("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+|"
     "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|"
     "\\p{N}"),
    "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))", /* groups of three from the right */
    "(?<=\\s)\\p{L}+(?=\\s|1)",
    "(?<!a)a*", /* empty ones, too */
    "\\s*\\nx", /* seldom there at all */
    "(?:ab|a)+?1",
    "\xe4\xb8\xad+a",
    ".+",
};

struct random {
    uint64_t state;
};

static uint64_t below(struct random *random, uint64_t n)
{
    random->state = random->state * 6364136223846793005u + 1442695040888963407u;
    return (random->state >> 33) % n;
}

/* Runs of one character each, most of them short. */
static size_t fill(struct random *random, char *text)
{
    static const char *const CHARACTERS[] = {
        "a", "b",  "A",  "1",  " ",  "\n",           "\r",
        "!", "'s", "ab", "\t", "\0", "\xe4\xb8\xad", "\xcc\x81"};
    size_t n = 0;
    size_t wanted = 1 + below(random, TEXT_MAX / 2);
    while (n < wanted) {
        const char *character = CHARACTERS[below(random, sizeof CHARACTERS / sizeof *CHARACTERS)];
        size_t length = strlen(character) + (*character == '\0');
        size_t count = 1 + below(random, below(random, 8) == 0 ? 400 : 6);
        for (; count > 0 && n + length <= TEXT_MAX; count--, n += length)
            memcpy(text + n, character, length);
    }
    return n;
}

/* The next match as PCRE2 finds it in the whole text. */
static bool find_whole(const struct split_pattern *pattern, pcre2_match_data *data,
                       struct split_search *search, size_t range_out[2])
{
    for (uint32_t skipped; search->at <= search->n_bytes;
         search->at += utf8_read(search->text + search->at, &skipped)) {
        int n = pcre2_match(pattern->code, (PCRE2_SPTR)search->text, search->n_bytes, search->at,
                            PCRE2_NO_UTF_CHECK, data, NULL);
        cr_assert(n >= 0 || n == PCRE2_ERROR_NOMATCH, "%d", n);
        const PCRE2_SIZE *range = pcre2_get_ovector_pointer(data);
        bool is_empty = n >= 0 && range[0] == range[1] && search->has_matched &&
                        search->last_end == range[1];
        if (n >= 0 && !is_empty) {
            range_out[0] = range[0];
            search->at = search->last_end = range_out[1] = range[1];
            search->has_matched = true;
            return true;
        }
        if (n < 0 || search->at == search->n_bytes)
            return false;
    }
    return false;
}

static void expect_same(const struct split_pattern *pattern, const char *name, const char *text,
                        size_t n_bytes)
{
    struct split_search search = {.text = text, .n_bytes = n_bytes}, whole = search;
    struct halt halt = {0};
    struct split_matcher *matcher;
    cr_assert_eq(split_matcher_create(n_bytes, &halt, &matcher), STATUS_OK);
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    for (bool is_there = true; is_there;) {
        size_t range[2] = {0}, expected[2] = {0};
        bool found;
        struct error error = {""};
        cr_assert_eq(split_pattern_next(pattern, matcher, &search, &error, &found, range),
                     STATUS_OK, "%s: %s", name, error.text);
        is_there = find_whole(pattern, data, &whole, expected);
        cr_assert_eq(found, is_there, "%s: after byte %zu of %zu", name, search.last_end, n_bytes);
        cr_assert(!found || (range[0] == expected[0] && range[1] == expected[1]),
                  "%s: %zu .. %zu, not %zu .. %zu", name, range[0], range[1], expected[0],
                  expected[1]);
    }
    pcre2_match_data_free(data);
    split_matcher_destroy(matcher);
}

Test(split_pattern, a_window_finds_what_the_whole_text_has)
{
    static char text[TEXT_MAX];
    struct random random = {42};
    for (size_t i = 0; i < sizeof PATTERNS / sizeof *PATTERNS; i++) {
        struct split_pattern *pattern;
        struct error error = {""};
        cr_assert_eq(split_pattern_create(PATTERNS[i], strlen(PATTERNS[i]), "p", &error, &pattern),
                     STATUS_OK, "%s", error.text);
        for (int round = 0; round < 60; round++)
            expect_same(pattern, PATTERNS[i], text, fill(&random, text));
        split_pattern_destroy(pattern);
    }
}

/* Splits n times character; the units that it took in spent_out. */
static enum status run(const char *pattern_text, const char *character, size_t n, struct halt *halt,
                       struct error *error, uint64_t *spent_out)
{
    struct split_pattern *pattern;
    struct split_matcher *matcher;
    size_t length = strlen(character), range[2];
    char *text = malloc(n * length);
    bool found = true;
    cr_assert_not_null(text);
    for (size_t i = 0; i < n; i++)
        memcpy(text + i * length, character, length);
    cr_assert_eq(split_pattern_create(pattern_text, strlen(pattern_text), "p", error, &pattern),
                 STATUS_OK);
    cr_assert_eq(split_matcher_create(n * length, halt, &matcher), STATUS_OK);
    struct split_search search = {.text = text, .n_bytes = n * length};
    enum status status = STATUS_OK;
    while (found && status == STATUS_OK)
        status = split_pattern_next(pattern, matcher, &search, error, &found, range);
    *spent_out = split_matcher_spent(matcher);
    split_matcher_destroy(matcher);
    split_pattern_destroy(pattern);
    free(text);
    return status;
}

Test(split_pattern, a_published_pattern_spends_little_on_runs_of_any_length)
{
    static const char *const CHARACTERS[] = {"a", "A", "1", " ", "\n", "\r", "!", "\xe4\xb8\xad"};
    for (size_t i = 0; i < sizeof CHARACTERS / sizeof *CHARACTERS; i++) {
        for (size_t n = 1000; n <= 4000000; n *= 20) {
            struct halt halt = {0};
            struct error error = {""};
            uint64_t spent;
            cr_assert_eq(run(PATTERNS[0], CHARACTERS[i], n, &halt, &error, &spent), STATUS_OK, "%s",
                         error.text);
            cr_expect_leq(spent, SPLIT_BUDGET_BYTE / 8 * n * strlen(CHARACTERS[i]), "%zu of \"%s\"",
                          n, CHARACTERS[i]);
        }
    }
}

/* One looks ahead with steps of PCRE2's, the other without. */
Test(split_pattern, looking_far_ahead_ends_at_the_budget_of_the_text)
{
    static const char *const AHEAD[] = {"\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))",
                                        "\\p{N}{1,3}(?=\\p{N}*)"};
    for (size_t i = 0; i < 2; i++) {
        struct halt halt = {0};
        struct error error = {""};
        uint64_t spent;
        cr_expect_eq(run(AHEAD[i], "1", 5000, &halt, &error, &spent), STATUS_OK, "%s", error.text);
        cr_expect_eq(run(AHEAD[i], "1", 400000, &halt, &error, &spent), STATUS_INVALID_ARGUMENT);
        cr_expect(strstr(error.text, "text: a split pattern reaches its limit after byte "), "%s",
                  error.text);
        cr_expect_leq(spent, 2 * (SPLIT_BUDGET_BASE + SPLIT_BUDGET_BYTE * 400000u));
    }
}

/* Each goes over the run again and again: groups, repeats side by side, and such before a character, which PCRE2's JIT
 * looks for without counting. */
Test(split_pattern, one_match_ends_at_what_is_left_of_the_texts_budget)
{
    static const char *const AGAIN[] = {
        "(?:\\p{N}\\p{N}?)*[xy]|\\p{N}",
        "(?=(?:\\p{N}|\\p{N}\\p{N})*[xy])\\p{N}|\\p{N}",
        "\\p{N}*\\p{N}*[xy]|\\p{N}",
        "\\p{N}*\\p{N}*x|\\p{N}",
        "\\p{N}*?\\p{N}+?\\p{N}{2,}x|\\p{N}",
        "(?:\\p{N}{3})*[xy]", /* no match anywhere: it may begin at any of them */
        "(?=(?:\\p{N}{3})+[xy])",
        "1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?1?[xy]|\\p{N}",
    };
    const size_t n = 16000;
    for (size_t i = 0; i < sizeof AGAIN / sizeof *AGAIN; i++) {
        struct halt halt = {0};
        struct error error = {""};
        uint64_t spent;
        cr_expect_eq(run(AGAIN[i], "1", n, &halt, &error, &spent), STATUS_INVALID_ARGUMENT, "%s",
                     AGAIN[i]);
        cr_expect_leq(spent, SPLIT_BUDGET_BASE + SPLIT_BUDGET_BYTE * n + SPLIT_BUDGET_BASE / 1000,
                      "%s: %" PRIu64, AGAIN[i], spent);
    }
}

static bool is_third(void *arg)
{
    int *n = arg;
    return ++*n == 3;
}

Test(split_pattern, a_text_that_is_not_wanted_any_more_ends_between_two_matches)
{
    int n_asked = 0;
    struct halt halt = {.ask = is_third, .arg = &n_asked};
    struct error error = {""};
    uint64_t spent;
    cr_assert_eq(run("\\p{N}", "1", 1000000, &halt, &error, &spent), STATUS_CANCELLED);
    cr_assert_eq(n_asked, 3);
}
