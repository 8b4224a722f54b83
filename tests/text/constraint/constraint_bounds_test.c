/* constraint: the memory of all constraints has a bound, and a compilation ends when it is over. */
#include "base/clock.h"
#include "text/constraint/constraint.h"
#include "text/text_build.h"
#include "tokenizer/tokenizer.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER      KVFERRY_SOURCE_DIR "/tests/golden/tokenizer/qwen2"
#define N_VALUES    10000u
#define VALUE_BYTES 20u

struct setup {
    struct tokenizer *tokenizer;
    struct constraint_compiler *compiler;
    uint32_t *mask;
};

static struct setup new_setup(uint64_t memory_max, uint64_t compile_ns)
{
    const struct constraint_limits limits = {.bytes_max = 1 << 18,
                                             .grammar_bytes_max = 1 << 16,
                                             .choices_max = 1024,
                                             .compile_ns = compile_ns,
                                             .n_kept = 4,
                                             .memory_max = memory_max};
    struct setup setup = {0};
    struct error error = {0};
    if (!text_is_built())
        cr_skip_test("this build has no Rust library");
    cr_assert_eq(tokenizer_load(FOLDER, &error, &setup.tokenizer), STATUS_OK, "%s", error.text);
    const uint32_t n_ids = tokenizer_n_ids(setup.tokenizer);
    setup.mask = calloc((n_ids + 32) / 32, sizeof *setup.mask);
    cr_assert_eq(constraint_compiler_create(setup.tokenizer, n_ids + 1, &n_ids, 1, &limits, &error,
                                            &setup.compiler),
                 STATUS_OK, "%s", error.text);
    return setup;
}

static void free_setup(struct setup *setup)
{
    constraint_compiler_destroy(setup->compiler);
    tokenizer_destroy(setup->tokenizer);
    free(setup->mask);
}

static enum status try_compile(struct setup *setup, enum constraint_kind kind, const char *text,
                               struct error *error, struct constraint **constraint_out)
{
    const struct constraint_text input = {.kind = kind, .text = {text, strlen(text)}};
    *constraint_out = NULL;
    return constraint_compile(setup->compiler, &input, NULL, NULL, error, constraint_out);
}

static struct constraint *compile(struct setup *setup, enum constraint_kind kind, const char *text)
{
    struct error error = {0};
    struct constraint *constraint;
    cr_assert_eq(try_compile(setup, kind, text, &error, &constraint), STATUS_OK, "%s", error.text);
    return constraint;
}

/* A schema that takes 2 MB when it is compiled. */
static char *large_schema(void)
{
    char *text = malloc(64 + N_VALUES * VALUE_BYTES);
    cr_assert_not_null(text);
    size_t n = (size_t)snprintf(text, VALUE_BYTES, "{\"enum\":[");
    for (uint32_t i = 0; i < N_VALUES; i++)
        n += (size_t)snprintf(text + n, VALUE_BYTES, "%s\"value %u\"", i ? "," : "",
                              i * 7919 % 100003);
    memcpy(text + n, "]}", 3);
    return text;
}

enum { LARGE_MAX = 16 };

/* Large ones until there is no memory for another. Returns how many there are. */
static uint32_t fill(struct setup *setup, const char *schema, struct constraint *large[LARGE_MAX])
{
    struct error error = {0};
    for (uint32_t n = 0; n < LARGE_MAX; n++) {
        const enum status status = try_compile(setup, CONSTRAINT_JSON_SCHEMA, schema, &error,
                                               &large[n]);
        if (status == STATUS_OK)
            continue;
        cr_assert_eq(status, STATUS_QUEUE_FULL, "%s", error.text);
        cr_assert(strstr(error.text, "8388608 bytes (constraint_memory_max)"), "%s", error.text);
        cr_assert_null(large[n]);
        return n;
    }
    cr_assert_fail("nothing is refused");
    return 0;
}

Test(constraint_bounds, memory, .timeout = 60)
{
    struct setup setup = new_setup(8 << 20, 60 * NS_PER_S);
    struct error error = {0};
    struct constraint *large[LARGE_MAX], *refused;
    char *schema = large_schema();
    struct constraint *small = compile(&setup, CONSTRAINT_REGEX, "[ab]{9}");
    const uint32_t n = fill(&setup, schema, large);
    cr_assert_geq(n, 3, "what is kept goes before anything is refused");
    cr_assert_eq(try_compile(&setup, CONSTRAINT_REGEX, "c", &error, &refused), STATUS_QUEUE_FULL);
    cr_assert_eq(constraint_mask(small, setup.mask, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(constraint_mask(large[0], setup.mask, &error), STATUS_CONSTRAINT_UNMET);
    cr_assert(strstr(error.text, "constraint_memory_max"), "%s", error.text);
    for (uint32_t i = 1; i < n; i++)
        constraint_destroy(large[i]);
    cr_assert_eq(constraint_mask(large[0], setup.mask, &error), STATUS_OK, "%s", error.text);
    struct constraint *next = compile(&setup, CONSTRAINT_REGEX, "c");
    constraint_destroy(next);
    constraint_destroy(large[0]);
    constraint_destroy(small);
    free(schema);
    free_setup(&setup);
}

/* One that grows with each token of its reply. */
Test(constraint_bounds, memory_of_a_long_reply, .timeout = 60)
{
    struct setup setup = new_setup(2 << 20, 60 * NS_PER_S);
    struct error error = {0};
    enum status status = STATUS_OK;
    uint32_t n = 0, id = 0;
    struct constraint *constraint = compile(&setup, CONSTRAINT_REGEX,
                                            "(?s)(.*a.{30}|.*b.{31}|.*c.{37}|.*d.{41})x{50}");
    while (n < 20000 && (status = constraint_mask(constraint, setup.mask, &error)) == STATUS_OK) {
        do /* a token that may come, another one each time */
            id = (id + 7919) % tokenizer_n_ids(setup.tokenizer);
        while (!(setup.mask[id / 32] >> id % 32 & 1));
        cr_assert_eq(constraint_accept(constraint, id, &error), STATUS_OK, "%s", error.text);
        n++;
    }
    cr_assert_eq(status, STATUS_CONSTRAINT_UNMET);
    cr_assert(strstr(error.text, "constraint_memory_max"), "%s", error.text);
    cr_assert_gt(n, 20);
    constraint_destroy(constraint);
    free_setup(&setup);
}

/* ---- texts that a schema forces ---- */

/* A free field, and two that can only be texts of n_bytes. */
static char *const_schema(size_t n_bytes, const char *character)
{
    static const char *const PARTS[] = {
        "{\"type\":\"object\",\"properties\":{\"f\":{\"type\":\"boolean\"},\"a\":{\"const\":\"",
        "\"},\"b\":{\"enum\":[\"", "\"]}},\"required\":[\"f\",\"a\",\"b\"]}"};
    const size_t n_character = strlen(character);
    char *text = malloc(512 + 2 * n_bytes);
    cr_assert_not_null(text);
    size_t n = 0;
    for (int part = 0; part < 3; part++) {
        memcpy(text + n, PARTS[part], strlen(PARTS[part]));
        n += strlen(PARTS[part]);
        for (size_t i = 0; part < 2 && i + n_character <= n_bytes;
             i += n_character, n += n_character)
            memcpy(text + n, character, n_character);
    }
    text[n] = 0;
    return text;
}

static enum status check_schema(char *take_text, struct error *error)
{
    const struct constraint_limits limits = {.bytes_max = 1 << 18};
    const struct constraint_text text = {.text = {take_text, strlen(take_text)}};
    const enum status status = constraint_check(&text, &limits, error);
    free(take_text);
    return status;
}

Test(constraint_bounds, texts_that_a_schema_forces)
{
    struct error error = {0};
    cr_assert_eq(check_schema(const_schema(8000, "x"), &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(check_schema(const_schema(8400, "x"), &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "$.properties.b.enum: with this, what const and enum hold"), "%s",
              error.text);
    cr_assert_eq(check_schema(const_schema(17000, "x"), &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "$.properties.a.const: with this"), "%s", error.text);
    /* It counts as it stands in the reply. */
    cr_assert_eq(check_schema(const_schema(8000, "\\u0001"), &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(check_schema(const_schema(8400, "\\u0001"), &error), STATUS_INVALID_ARGUMENT);
}
