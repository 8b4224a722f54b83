/* constraint: masks let through what fits each kind of constraint and nothing else, forced tokens are those that masks alone would give,
 * and what is taken back may come again. */
#include "base/random.h"
#include "text/constraint/constraint.h"
#include "text/text_build.h"
#include "tokenizer/tokenizer.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN  KVFERRY_SOURCE_DIR "/tests/golden/tokenizer/"
#define PADDING 37 /* logits beyond the tokenizer's ids */

static const struct constraint_limits LIMITS = {.bytes_max = 1 << 18,
                                                .grammar_bytes_max = 1 << 16,
                                                .choices_max = 1024,
                                                .compile_ns = 60000000000,
                                                .n_kept = 4};

struct setup {
    struct tokenizer *tokenizer;
    struct constraint_compiler *compiler;
    uint32_t vocabulary;
    uint32_t end;
};

static struct setup new_setup(const char *folder)
{
    struct setup setup = {0};
    struct error error = {0};
    char path[512];
    if (!text_is_built())
        cr_skip_test("this build has no Rust library");
    snprintf(path, sizeof path, GOLDEN "%s", folder);
    cr_assert_eq(tokenizer_load(path, &error, &setup.tokenizer), STATUS_OK, "%s", error.text);
    setup.vocabulary = tokenizer_n_ids(setup.tokenizer) + PADDING;
    setup.end = tokenizer_special_ids(setup.tokenizer).eos;
    if (setup.end == TOKEN_NONE)
        setup.end = setup.vocabulary - PADDING;
    cr_assert_eq(constraint_compiler_create(setup.tokenizer, setup.vocabulary, &setup.end, 1,
                                            &LIMITS, &error, &setup.compiler),
                 STATUS_OK, "%s: %s", folder, error.text);
    return setup;
}

static void free_setup(struct setup *setup)
{
    constraint_compiler_destroy(setup->compiler);
    tokenizer_destroy(setup->tokenizer);
}

static struct constraint_text text_of(enum constraint_kind kind, const char *text)
{
    return (struct constraint_text){.kind = kind, .text = {text, strlen(text)}};
}

static struct constraint *compile(struct setup *setup, enum constraint_kind kind, const char *text)
{
    struct error error = {0};
    struct constraint *constraint = NULL;
    const struct constraint_text input = text_of(kind, text);
    cr_assert_eq(constraint_compile(setup->compiler, &input, NULL, NULL, &error, &constraint),
                 STATUS_OK, "%s: %s", text, error.text);
    return constraint;
}

Test(constraint, a_regex_lets_its_texts_through)
{
    struct setup setup = new_setup("gpt2");
    struct constraint *constraint = compile(&setup, CONSTRAINT_REGEX, "^(yes|no)$");
    uint32_t *mask = calloc((setup.vocabulary + 31) / 32, sizeof *mask);
    struct error error = {0};
    char said[64] = "";
    size_t n_said = 0;
    for (int i = 0; i < 20 && !constraint_is_done(constraint); i++) {
        cr_assert_eq(constraint_mask(constraint, mask, &error), STATUS_OK, "%s", error.text);
        for (uint32_t id = 0; id < setup.vocabulary; id++) {
            if (!(mask[id / 32] >> id % 32 & 1))
                continue;
            size_t n = 0;
            const char *text = tokenizer_token_bytes(setup.tokenizer, id, &n);
            memcpy(said + n_said, text, n);
            n_said += n;
            cr_assert_eq(constraint_accept(constraint, id, &error), STATUS_OK, "%s", error.text);
            break;
        }
    }
    cr_assert_str_eq(said, "no");
    free(mask);
    constraint_destroy(constraint);
    free_setup(&setup);
}

/* ---- draws ---- */

#define REPLY_MAX 4096

struct drawing {
    const struct setup *setup;
    struct random *random;
    uint32_t *mask;
    uint32_t n_tokens;
    uint32_t ids[512];
    char text[REPLY_MAX];
    size_t n_text;
};

static void add_token(struct drawing *drawing, uint32_t id)
{
    size_t n = 0;
    drawing->ids[drawing->n_tokens++] = id;
    if (id == drawing->setup->end)
        return;
    const char *bytes = tokenizer_token_bytes(drawing->setup->tokenizer, id, &n);
    cr_assert_lt(drawing->n_text + n, REPLY_MAX);
    if (n)
        memcpy(drawing->text + drawing->n_text, bytes, n);
    drawing->n_text += n;
    drawing->text[drawing->n_text] = 0;
}

static uint32_t count_allowed(const struct drawing *drawing, uint32_t *last)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < drawing->setup->vocabulary; id++)
        if (drawing->mask[id / 32] >> id % 32 & 1) {
            *last = id;
            n++;
        }
    return n;
}

static uint32_t draw_one(struct drawing *drawing)
{
    uint32_t last = 0, n = count_allowed(drawing, &last);
    cr_assert_gt(n, 0);
    uint32_t skip = (uint32_t)random_below(drawing->random, n);
    for (uint32_t id = 0; id < drawing->setup->vocabulary; id++)
        if ((drawing->mask[id / 32] >> id % 32 & 1) && skip-- == 0)
            return id;
    return last;
}

/* Draws until the text is complete, or n_max tokens. Each forced token is what the mask has as its only one. */
static bool draw_reply(struct drawing *drawing, struct constraint *constraint, uint32_t n_max)
{
    struct error error = {0};
    uint32_t forced[32];
    while (drawing->n_tokens < n_max && !constraint_is_done(constraint)) {
        const uint32_t n_forced = constraint_forced(constraint, forced, 32);
        for (uint32_t i = 0; i <= n_forced; i++) {
            uint32_t only = 0;
            if (i == n_forced && constraint_is_done(constraint))
                break;
            cr_assert_eq(constraint_mask(constraint, drawing->mask, &error), STATUS_OK, "%s",
                         error.text);
            if (i < n_forced) {
                cr_assert_eq(count_allowed(drawing, &only), 1, "\"%s\"", drawing->text);
                cr_assert_eq(only, forced[i]);
            }
            const uint32_t id = i < n_forced ? forced[i] : draw_one(drawing);
            cr_assert_eq(constraint_accept(constraint, id, &error), STATUS_OK, "%s", error.text);
            add_token(drawing, id);
        }
    }
    return constraint_is_done(constraint);
}

static struct drawing new_drawing(const struct setup *setup, struct random *random)
{
    return (struct drawing){.setup = setup,
                            .random = random,
                            .mask = calloc((setup->vocabulary + 31) / 32, sizeof(uint32_t))};
}

static const char *const FOLDERS[] = {"gpt2", "llama2", "gemma", "llama3", "qwen2", "tekken"};
#define N_FOLDERS (sizeof FOLDERS / sizeof *FOLDERS)

/* Draws a reply under a constraint with each tokenizer, and hands it to is_good. */
static void check_replies(const struct constraint_text *text, bool (*is_good)(const char *reply))
{
    for (size_t k = 0; k < N_FOLDERS; k++) {
        struct setup setup = new_setup(FOLDERS[k]);
        struct random random;
        struct error error = {0};
        random_init(&random, k + 1);
        for (int i = 0; i < 8; i++) {
            struct constraint *constraint = NULL;
            struct drawing drawing = new_drawing(&setup, &random);
            cr_assert_eq(constraint_compile(setup.compiler, text, NULL, NULL, &error, &constraint),
                         STATUS_OK, "%s", error.text);
            if (draw_reply(&drawing, constraint, 300))
                cr_assert(is_good(drawing.text), "%s: \"%s\"", FOLDERS[k], drawing.text);
            free(drawing.mask);
            constraint_destroy(constraint);
        }
        free_setup(&setup);
    }
}

static bool is_person(const char *reply)
{
    json_t *value = json_loads(reply, 0, NULL);
    const json_int_t age = json_integer_value(json_object_get(value, "age"));
    const bool is_good = json_object_size(value) == 2 && age >= 18 && age <= 99 &&
                         json_string_length(json_object_get(value, "name")) >= 1;
    json_decref(value);
    return is_good;
}

Test(constraint, replies_keep_to_a_json_schema, .timeout = 120)
{
    const struct constraint_text text = text_of(
        CONSTRAINT_JSON_SCHEMA,
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"minLength\":1,"
        "\"maxLength\":9},\"age\":{\"type\":\"integer\",\"minimum\":18,\"maximum\":99}},"
        "\"required\":[\"name\",\"age\"],\"additionalProperties\":false}");
    check_replies(&text, is_person);
}

/* How many of the byte may come one after the other, at most 200; they are taken. */
static uint32_t take_repeats(struct setup *setup, struct constraint *constraint, char byte)
{
    struct error error = {0};
    uint32_t id, n = 0, *mask = calloc((setup->vocabulary + 31) / 32, sizeof *mask);
    struct token_buffer buffer = {.ids = &id, .ids_max = 1};
    const struct encode_input input = {.text = &byte, .text_bytes = 1};
    cr_assert_eq(tokenizer_encode(setup->tokenizer, &input, &buffer, NULL), STATUS_OK);
    while (n < 200) {
        cr_assert_eq(constraint_mask(constraint, mask, &error), STATUS_OK, "%s", error.text);
        if (!(mask[id / 32] >> id % 32 & 1))
            break;
        cr_assert_eq(constraint_accept(constraint, id, &error), STATUS_OK, "%s", error.text);
        n++;
    }
    free(mask);
    return n;
}

/* A model that repeats blanks must go on at last: also where a schema says otherwise, or is none. */
Test(constraint, blanks_between_the_parts_of_json_are_few)
{
    static const char *const SCHEMAS[] = {NULL, /* any object */
                                          "{}",
                                          " { } \n",
                                          "true",
                                          "{\"type\":\"object\"}\n",
                                          "{\"x-guidance\":{\"whitespace_flexible\":true}}",
                                          "{\"x-guidance\":{\"whitespace_pattern\":\"[ ]+\"}}"};
    struct setup setup = new_setup("gpt2");
    for (size_t i = 0; i < sizeof SCHEMAS / sizeof *SCHEMAS; i++) {
        const char *schema = SCHEMAS[i] ? SCHEMAS[i] : "";
        for (int k = 0; k < 2; k++) {
            struct constraint *constraint = compile(
                &setup, SCHEMAS[i] ? CONSTRAINT_JSON_SCHEMA : CONSTRAINT_JSON_OBJECT, schema);
            cr_assert_eq(take_repeats(&setup, constraint, '{'), 1);
            cr_expect_eq(take_repeats(&setup, constraint, k ? '\n' : ' '), 2, "%s", schema);
            if (k)
                cr_expect_eq(take_repeats(&setup, constraint, ' '), 40, "%s", schema);
            cr_expect_eq(take_repeats(&setup, constraint, '\n'), 0, "%s", schema);
            cr_expect_eq(take_repeats(&setup, constraint, '}'), 1, "%s", schema);
            constraint_destroy(constraint);
        }
    }
    free_setup(&setup);
}

static bool is_object(const char *reply)
{
    json_error_t error;
    json_t *value = json_loads(reply, JSON_ALLOW_NUL, &error);
    /* A number may be larger than the reader's. */
    const bool is_good = json_is_object(value) ||
                         (!value && json_error_code(&error) == json_error_numeric_overflow);
    json_decref(value);
    return is_good;
}

Test(constraint, replies_are_any_object, .timeout = 120)
{
    check_replies(&(const struct constraint_text){.kind = CONSTRAINT_JSON_OBJECT}, is_object);
}

static bool is_choice(const char *reply)
{
    return strcmp(reply, "a.b") == 0 || strcmp(reply, "a.bc") == 0 ||
           strcmp(reply, "\xc3\xa4 \"/") == 0;
}

Test(constraint, replies_are_one_of_the_choices, .timeout = 120)
{
    const struct constraint_bytes choices[] = {{"a.b", 3}, {"a.bc", 4}, {"\xc3\xa4 \"/", 5}};
    const struct constraint_text text = {
        .kind = CONSTRAINT_CHOICE, .choices = choices, .n_choices = 3};
    check_replies(&text, is_choice);
}

/* Each choice can be the reply, by the tokens of its characters. */
static void check_choices(struct setup *setup, const struct constraint_bytes *choices, uint32_t n)
{
    const struct constraint_text text = {
        .kind = CONSTRAINT_CHOICE, .choices = choices, .n_choices = n};
    for (uint32_t i = 0; i < n; i++) {
        struct constraint *constraint = NULL;
        struct error error = {0};
        uint32_t ids[256];
        struct token_buffer buffer = {.ids = ids, .ids_max = 256};
        const struct encode_input input = {.text = choices[i].bytes,
                                           .text_bytes = choices[i].n_bytes};
        cr_assert_eq(tokenizer_encode(setup->tokenizer, &input, &buffer, NULL), STATUS_OK);
        cr_assert_eq(constraint_compile(setup->compiler, &text, NULL, NULL, &error, &constraint),
                     STATUS_OK, "%s", error.text);
        for (size_t k = 0; k < buffer.n_ids; k++)
            cr_assert_eq(constraint_accept(constraint, ids[k], &error), STATUS_OK,
                         "choice %u, token %zu: %s", i, k, error.text);
        cr_assert_eq(constraint_accept(constraint, setup->end, &error), STATUS_OK, "choice %u: %s",
                     i, error.text);
        constraint_destroy(constraint);
    }
}

Test(constraint, a_choice_may_have_any_character)
{
    static char ascii['~' - ' ' + 1];
    static const char *const TEXTS[] = {"a->b",
                                        "<html>",
                                        "x > 5",
                                        "\\<b\\>\\b\\B",
                                        "a\tb\r\nc",
                                        "[^a-z&&~-]",
                                        "(?i)x{2}",
                                        "\x01\x7f",
                                        "# no comment",
                                        "\\d\\n\\",
                                        "\xc3\xa4<\xe2\x82\xac>",
                                        "//",
                                        "$^|.*+?"};
    enum { N = 1 + sizeof TEXTS / sizeof *TEXTS };
    struct constraint_bytes choices[N] = {{ascii, sizeof ascii}};
    struct setup setup = new_setup("qwen2");
    for (size_t i = 0; i < sizeof ascii; i++)
        ascii[i] = (char)(' ' + i);
    for (size_t i = 1; i < N; i++)
        choices[i] = (struct constraint_bytes){TEXTS[i - 1], strlen(TEXTS[i - 1])};
    check_choices(&setup, choices, N);
    for (size_t i = 0; i < sizeof ascii; i++) /* each character alone */
        check_choices(&setup, &(struct constraint_bytes){&ascii[i], 1}, 1);
    free_setup(&setup);
}

/* Digits and parentheses that close. */
static bool is_balanced(const char *reply)
{
    int depth = 0;
    for (const char *at = reply; *at; at++) {
        depth += (*at == '(') - (*at == ')');
        if (depth < 0 || !strchr("()0123456789+", *at))
            return false;
    }
    return depth == 0 && *reply;
}

Test(constraint, replies_keep_to_a_grammar_of_either_syntax, .timeout = 120)
{
    const struct constraint_text lark = text_of(
        CONSTRAINT_GRAMMAR, "start: term (\"+\" term)*\nterm: /[0-9]{1,3}/ | \"(\" start \")\"\n");
    const struct constraint_text gbnf = text_of(
        CONSTRAINT_GRAMMAR,
        "root ::= term (\"+\" term)*\nterm ::= [0-9]{1,3} | \"(\" root \")\" # round\n");
    check_replies(&lark, is_balanced);
    check_replies(&gbnf, is_balanced);
}

/* ---- taking back ---- */

Test(constraint, what_is_taken_back_may_come_again, .timeout = 120)
{
    for (size_t k = 0; k < N_FOLDERS; k++) {
        struct setup setup = new_setup(FOLDERS[k]);
        struct random random;
        struct error error = {0};
        random_init(&random, 7);
        struct drawing drawing = new_drawing(&setup, &random);
        struct constraint *constraint = compile(&setup, CONSTRAINT_REGEX,
                                                "(\xf0\x9f\x92\xa3|x){4}y");
        const size_t n_words = (setup.vocabulary + 31) / 32;
        uint32_t *first = calloc(n_words, sizeof *first);
        cr_assert_eq(constraint_mask(constraint, first, &error), STATUS_OK);
        cr_assert(draw_reply(&drawing, constraint, 64));
        for (uint32_t n = 1; n <= drawing.n_tokens; n++) {
            cr_assert_eq(constraint_rollback(constraint, n, &error), STATUS_OK, "%s", error.text);
            cr_assert_not(constraint_is_done(constraint));
            if (n == drawing.n_tokens) {
                cr_assert_eq(constraint_mask(constraint, drawing.mask, &error), STATUS_OK);
                cr_assert_arr_eq(drawing.mask, first, n_words * sizeof *first);
            }
            for (uint32_t i = drawing.n_tokens - n; i < drawing.n_tokens; i++)
                cr_assert_eq(constraint_accept(constraint, drawing.ids[i], &error), STATUS_OK, "%s",
                             error.text);
            cr_assert(constraint_is_done(constraint));
        }
        free(first);
        free(drawing.mask);
        constraint_destroy(constraint);
        free_setup(&setup);
    }
}

Test(constraint, padding_and_special_tokens_are_never_allowed)
{
    struct setup setup = new_setup("qwen2");
    struct error error = {0};
    struct constraint *constraint = compile(&setup, CONSTRAINT_REGEX, "(?s).*");
    uint32_t *mask = calloc((setup.vocabulary + 31) / 32, sizeof *mask);
    cr_assert_eq(constraint_mask(constraint, mask, &error), STATUS_OK);
    for (uint32_t id = 0; id < setup.vocabulary; id++) {
        const bool is_allowed = mask[id / 32] >> id % 32 & 1;
        if (id == setup.end)
            cr_assert(is_allowed);
        else if (id >= setup.vocabulary - PADDING || tokenizer_is_special(setup.tokenizer, id))
            cr_assert_not(is_allowed, "token %u", id);
    }
    cr_assert_eq(constraint_accept(constraint, setup.vocabulary - 1, &error),
                 STATUS_CONSTRAINT_UNMET);
    free(mask);
    constraint_destroy(constraint);
    free_setup(&setup);
}

/* ---- what is refused ---- */

static const struct {
    enum constraint_kind kind;
    const char *text, *error;
} REFUSED[] = {
    {CONSTRAINT_JSON_SCHEMA, "{", "the schema is not JSON"},
    {CONSTRAINT_JSON_SCHEMA, "[]", "a schema is an object, true or false"},
    {CONSTRAINT_JSON_SCHEMA, "{\"$ref\":\"http://a/b\"}", "$.$ref: only references into"},
    {CONSTRAINT_JSON_SCHEMA, "{\"a\":{\"multipleOf\":99999937}}", "$.a.multipleOf: "},
    {CONSTRAINT_JSON_SCHEMA, "\xff", "no UTF-8 at byte 0"},
    {CONSTRAINT_REGEX, "", "it is empty"},
    {CONSTRAINT_REGEX, "a\\", "it ends in a backslash"},
    {CONSTRAINT_GRAMMAR, "start: <|end|>", "line 1: special tokens"},
    {CONSTRAINT_GRAMMAR, "start: a\na[stop=\"x\"]: /b/", "line 2: stop= cannot be used"},
    {CONSTRAINT_GRAMMAR, "start: a\na: %json {\"$ref\":\"x\"}", "line 2: %json: $.$ref"},
    {CONSTRAINT_GRAMMAR, "root ::= \"a", "line 1: a text without its second \""},
    {CONSTRAINT_GRAMMAR, "root ::= b\n", "line 1: b: there is no rule of this name"},
    {CONSTRAINT_GRAMMAR, "root ::= \"a\"\n\nroot ::= \"b\"", "line 3: root: there is a rule"},
    {CONSTRAINT_GRAMMAR, "a ::= \"b\"", "there is no rule \"root\""},
    {CONSTRAINT_GRAMMAR, "root ::= \"a\"\n (", "line 2: a ( without its )"},
    {CONSTRAINT_GRAMMAR, "root ::= [b-a]", "line 1: a range of a class"},
    {CONSTRAINT_GRAMMAR, "root ::= \"a\"{3,2}", "line 1: {...} with fewer times"},
    {CONSTRAINT_GRAMMAR, "root ::= <think>", "line 1: special tokens"},
    {CONSTRAINT_GRAMMAR, "root ::= \"\\q\"", "line 1: an escape in a text that is none"},
};

Test(constraint, what_is_wrong_is_said_without_compiling)
{
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        struct error error = {0};
        const struct constraint_text text = text_of(REFUSED[i].kind, REFUSED[i].text);
        cr_assert_eq(constraint_check(&text, &LIMITS, &error), STATUS_INVALID_ARGUMENT, "%s",
                     REFUSED[i].text);
        cr_assert(strstr(error.text, REFUSED[i].error), "\"%s\" in \"%s\"", REFUSED[i].error,
                  error.text);
    }
}

Test(constraint, too_many_parts_that_may_be_empty_are_refused)
{

    struct error error = {0};
    char regex[3001], grammar[4000];
    for (size_t i = 0; i < sizeof regex - 1; i += 2)
        memcpy(regex + i, i + 2 < 600 * 2 || i % 3 ? "a?" : "aa", 2);
    regex[3000] = 0;
    const struct constraint_text text = text_of(CONSTRAINT_REGEX, regex);
    cr_assert_eq(constraint_check(&text, &LIMITS, &error), STATUS_INVALID_ARGUMENT);
    regex[600] = 0; /* 300 alone are fine, but not four times */
    const struct constraint_text shorter = text_of(CONSTRAINT_REGEX, regex);
    cr_assert_eq(constraint_check(&shorter, &LIMITS, &error), STATUS_OK, "%s", error.text);
    snprintf(grammar, sizeof grammar, "start: A\nA: B B B B\nB: /%s/\n", regex);
    const struct constraint_text lark = text_of(CONSTRAINT_GRAMMAR, grammar);
    cr_assert_eq(constraint_check(&lark, &LIMITS, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "line 2: more than"), "%s", error.text);
}

Test(constraint, no_text_at_all_is_no_constraint)
{
    struct setup setup = new_setup("gpt2");
    struct error error = {0};
    struct constraint *constraint = NULL;
    const struct constraint_text text = text_of(CONSTRAINT_GRAMMAR, "root ::= root");
    cr_assert_eq(constraint_compile(setup.compiler, &text, NULL, NULL, &error, &constraint),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "no text can meet it");
    free_setup(&setup);
}

/* ---- threads ---- */

static bool is_over(void *arg)
{
    (void)arg;
    return true;
}

Test(constraint, a_call_that_is_over_compiles_nothing)
{
    struct setup setup = new_setup("gpt2");
    struct error error = {0};
    struct constraint *constraint = NULL;
    const struct constraint_text text = text_of(CONSTRAINT_REGEX, "a");
    cr_assert_eq(constraint_compile(setup.compiler, &text, is_over, NULL, &error, &constraint),
                 STATUS_CANCELLED);
    free_setup(&setup);
}

#define N_THREADS 4

struct worker {
    const struct setup *setup;
    uint64_t seed;
    int n_wrong;
};

/* Assertions are the main thread's. */
static void *work(void *arg)
{
    static const char *const REGEXES[] = {"(ab|c){1,9}", "[0-9]{4}", "x+y", "(a|b)*a", "q", "z{2}"};
    struct worker *worker = arg;
    const struct setup *setup = worker->setup;
    uint32_t *mask = calloc((setup->vocabulary + 31) / 32, sizeof *mask);
    for (size_t i = 0; i < 24; i++) {
        struct error error = {0};
        struct constraint *constraint = NULL;
        const struct constraint_text text = text_of(CONSTRAINT_REGEX,
                                                    REGEXES[(i + worker->seed) % 6]);
        if (constraint_compile(setup->compiler, &text, NULL, NULL, &error, &constraint) !=
            STATUS_OK) {
            worker->n_wrong++;
            continue;
        }
        for (int n = 0; n < 20 && !constraint_is_done(constraint); n++) {
            uint32_t id = 0;
            worker->n_wrong += constraint_mask(constraint, mask, &error) != STATUS_OK;
            while (id < setup->vocabulary && !(mask[id / 32] >> id % 32 & 1))
                id++;
            worker->n_wrong += constraint_accept(constraint, id, &error) != STATUS_OK;
        }
        constraint_destroy(constraint);
    }
    free(mask);
    return NULL;
}

Test(constraint, threads_share_a_compiler, .timeout = 120)
{
    struct setup setup = new_setup("gpt2");
    struct worker workers[N_THREADS];
    pthread_t threads[N_THREADS];
    for (int i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){.setup = &setup, .seed = (uint64_t)i};
        cr_assert_eq(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(workers[i].n_wrong, 0);
    }
    free_setup(&setup);
}
