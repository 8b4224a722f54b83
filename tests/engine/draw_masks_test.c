/* draw_masks: a mask is what its constraint allows, or allowed some tokens ago, whoever computes it; what has none gets an empty one and
 * its reason, and nobody else does. */
#include "engine/draw_masks.h"
#include "tests/engine/support/desk_rig.h"
#include "tokenizer/tokenizer.h"

enum { ROWS = 8, WORDS = DESK_VOCABULARY / 32 };

struct setup {
    struct tokenizer *tokenizer;
    struct constraint_compiler *compiler;
};

static void open_setup(struct setup *setup)
{
    const struct constraint_limits limits = {.bytes_max = 1 << 10,
                                             .grammar_bytes_max = 1 << 10,
                                             .choices_max = 4,
                                             .compile_ns = UINT64_C(60000000000),
                                             .n_kept = 4};
    struct error error = {0};
    if (!text_is_built())
        cr_skip_test("this build has no Rust library");
    cr_assert_eq(tokenizer_load(DESK_FOLDER, &error, &setup->tokenizer), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(constraint_compiler_create(setup->tokenizer, DESK_VOCABULARY, DESK_ENDS, 1,
                                            &limits, &error, &setup->compiler),
                 STATUS_OK, "%s", error.text);
}

static void close_setup(struct setup *setup)
{
    constraint_compiler_destroy(setup->compiler);
    tokenizer_destroy(setup->tokenizer);
}

/* That has accepted the characters of said. */
static struct constraint *compile(struct setup *setup, const char *regex, const char *said)
{
    const struct constraint_text text = {.kind = CONSTRAINT_REGEX, .text = {regex, strlen(regex)}};
    struct constraint *constraint = NULL;
    struct error error = {0};
    cr_assert_eq(constraint_compile(setup->compiler, &text, NULL, NULL, &error, &constraint),
                 STATUS_OK, "%s", error.text);
    for (; *said; said++)
        cr_assert_eq(constraint_accept(constraint, DESK_ID(*said), &error), STATUS_OK, "%s",
                     error.text);
    return constraint;
}

static void expect_mask(const uint32_t *mask, const char *characters)
{
    for (uint32_t id = 0; id < DESK_VOCABULARY; id++)
        cr_assert_eq(desk_mask_has(mask, id),
                     id < DESK_ID('~') && strchr(characters, DESK_CHAR(id)) != NULL, "%u of %s", id,
                     characters);
}

static void check(struct setup *setup, struct thread_pool *threads)
{
    static const char *const SAID[ROWS] = {"", "a", "ab", "abc", "", "a", "ab", "abc"};
    static const char *const NEXT[ROWS] = {"a", "b", "c", "d", "a", "b", "c", "d"};
    struct draw_masks *masks;
    struct constraint *constraints[ROWS];
    const uint32_t *rows[ROWS];
    cr_assert_eq(draw_masks_create(ROWS, DESK_VOCABULARY, threads, &masks), STATUS_OK);
    for (uint32_t i = 0; i < ROWS; i++)
        constraints[i] = compile(setup, "abcd", SAID[i]);
    for (uint32_t n = 1; n <= ROWS; n++) {
        draw_masks_clear(masks);
        for (uint32_t i = 0; i < n; i++)
            rows[i] = draw_masks_add(masks, constraints[i], NULL, 0);
        draw_masks_make(masks);
        for (uint32_t i = 0; i < n; i++) {
            expect_mask(rows[i], NEXT[i]);
            cr_assert_null(draw_masks_fault(masks, rows[i]));
        }
    }
    for (uint32_t i = 0; i < ROWS; i++)
        constraint_destroy(constraints[i]);
    draw_masks_destroy(masks);
}

Test(draw_masks, each_is_its_constraints)
{
    struct setup setup;
    struct thread_pool *threads;
    open_setup(&setup);
    check(&setup, NULL);
    cr_assert_eq(thread_pool_create(3, false, &threads), STATUS_OK);
    check(&setup, threads);
    thread_pool_destroy(threads);
    close_setup(&setup);
}

Test(draw_masks, one_of_before_leaves_the_constraint_where_it_was)
{
    static const uint32_t SAID[] = {DESK_ID('a'), DESK_ID('b'), DESK_ID('c')};
    struct setup setup;
    struct draw_masks *masks;
    open_setup(&setup);
    cr_assert_eq(draw_masks_create(1, DESK_VOCABULARY, NULL, &masks), STATUS_OK);
    struct constraint *constraint = compile(&setup, "[a-f][b-f][c-f][d-f]", "abc");
    static const char *const NEXT[] = {"def", "cdef", "bcdef", "abcdef"};
    for (uint32_t n = 0; n <= 3; n++) {
        for (uint32_t n_back = 0; n_back <= n; n_back++) {
            draw_masks_clear(masks);
            const uint32_t *mask = draw_masks_add(masks, constraint, SAID + 3 - n_back, n_back);
            draw_masks_make(masks);
            expect_mask(mask, NEXT[n_back]);
        }
    }
    constraint_destroy(constraint);
    draw_masks_destroy(masks);
    close_setup(&setup);
}

Test(draw_masks, what_has_none_is_empty_and_says_why)
{
    struct setup setup;
    struct draw_masks *masks;
    struct error error = {0};
    open_setup(&setup);
    cr_assert_eq(draw_masks_create(3, DESK_VOCABULARY, NULL, &masks), STATUS_OK);
    struct constraint *good = compile(&setup, "ab", ""), *bad = compile(&setup, "ab", "");
    cr_assert_eq(constraint_accept(bad, DESK_ID('z'), &error), STATUS_CONSTRAINT_UNMET);
    const uint32_t *rows[] = {draw_masks_add(masks, bad, NULL, 0),
                              draw_masks_add(masks, good, NULL, 0)};
    draw_masks_make(masks);
    expect_mask(rows[0], "");
    cr_assert_not_null(draw_masks_fault(masks, rows[0]));
    cr_assert_neq(draw_masks_fault(masks, rows[0])[0], '\0');
    expect_mask(rows[1], "a");
    cr_assert_null(draw_masks_fault(masks, rows[1]));
    draw_masks_clear(masks);
    const uint32_t *again = draw_masks_add(masks, good, NULL, 0);
    draw_masks_make(masks);
    expect_mask(again, "a");
    cr_assert_null(draw_masks_fault(masks, again), "the row's fault was another's");
    constraint_destroy(good);
    constraint_destroy(bad);
    draw_masks_destroy(masks);
    draw_masks_destroy(NULL);
    close_setup(&setup);
}
