/* constraint: masks let through what fits each kind of constraint and nothing else, forced tokens are those that masks alone would give,
 * and what is taken back may come again. */
#include "text/constraint/constraint.h"
#include "text/text_build.h"
#include "tokenizer/tokenizer.h"

#include <criterion/criterion.h>
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
        setup.end = 0;
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
