/* constraint_desk: what is ordered is compiled, in order, or its fault said with the field; there is a bound; what is cancelled is never
 * taken, whatever became of it. */
#include "tests/engine/support/desk_rig.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>

static struct constraint_order *order(struct desk_rig *rig, const struct reply_constraint *text)
{
    struct constraint_order *order = NULL;
    cr_assert_eq(constraint_desk_order(rig->desk, text, 0, &order), STATUS_OK);
    return order;
}

static struct constraint_order *order_of(struct desk_rig *rig, uint64_t tenant, const char *regex)
{
    struct constraint_order *order = NULL;
    const struct reply_constraint text = desk_rig_regex(&regex);
    cr_assert_eq(constraint_desk_order(rig->desk, &text, tenant, &order), STATUS_OK);
    return order;
}

static struct constraint_order *order_regex(struct desk_rig *rig, const char *regex)
{
    const struct reply_constraint text = desk_rig_regex(&regex);
    return order(rig, &text);
}

static struct constraint_done take(struct desk_rig *rig, const struct constraint_order *order)
{
    struct constraint_done done;
    while (!constraint_desk_take(rig->desk, &done))
        desk_rig_wait(rig);
    cr_assert_eq(done.order, order, "in the order of their arrival");
    return done;
}

/* The characters that may come. */
static void expect_next(struct constraint *constraint, const char *characters)
{
    uint32_t mask[DESK_VOCABULARY / 32];
    struct error error = {0};
    cr_assert_eq(constraint_mask(constraint, mask, &error), STATUS_OK, "%s", error.text);
    for (uint32_t id = 0; id < DESK_VOCABULARY; id++)
        cr_assert_eq(desk_mask_has(mask, id),
                     id < DESK_ID('~') && strchr(characters, DESK_CHAR(id)) != NULL, "%u", id);
}

static void expect_taken(struct desk_rig *rig, const struct constraint_order *order,
                         const char *next)
{
    struct constraint_done done = take(rig, order);
    cr_assert_eq(done.status, STATUS_OK, "%s", done.error.text);
    expect_next(done.constraint, next);
    constraint_destroy(done.constraint);
}

static void expect_fault(struct desk_rig *rig, const struct constraint_order *order,
                         enum status status, const char *says)
{
    struct constraint_done done = take(rig, order);
    cr_assert_eq(done.status, status, "%s", done.error.text);
    cr_assert_null(done.constraint);
    cr_assert_eq(strncmp(done.error.text, says, strlen(says)), 0, "%s", done.error.text);
}

/* It takes long enough for the next lines of a test. */
static struct constraint_order *order_long(struct desk_rig *rig)
{
    char *text = desk_rig_long_regex();
    struct constraint_order *long_one = order_regex(rig, text);
    free(text);
    return long_one;
}

Test(constraint_desk, what_is_ordered_comes_compiled_and_in_order)
{
    static const char *const CHOICES[] = {"red", "blue"};
    static const char *const SCHEMA[] = {"{\"enum\": [\"x\"]}"};
    static const char *const GRAMMAR[] = {"start: \"k\" | \"l\""};
    struct desk_rig rig;
    struct constraint_done done;
    desk_rig_open(&rig, DESK_FOLDER, 8);
    cr_assert_not(constraint_desk_take(rig.desk, &done), "nothing was ordered");
    const struct constraint_order *orders[] = {
        order_regex(&rig, "[a-c]z"),
        order(&rig, &(struct reply_constraint){REPLY_CHOICES, 2, CHOICES}),
        order(&rig, &(struct reply_constraint){REPLY_JSON_SCHEMA, 1, SCHEMA}),
        order(&rig, &(struct reply_constraint){REPLY_GRAMMAR, 1, GRAMMAR}),
        order(&rig, &(struct reply_constraint){.kind = REPLY_JSON_OBJECT}),
    };
    static const char *const NEXT[] = {"abc", "rb", "\"", "kl", "{"};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        expect_taken(&rig, orders[i], NEXT[i]);
    cr_assert_not(constraint_desk_take(rig.desk, &done));
    cr_assert_eq(constraint_desk_limit_ns(rig.desk), UINT64_C(120000000000));
    cr_assert_eq(constraint_desk_limit_ns(NULL), 0);
    desk_rig_close(&rig);
}

Test(constraint_desk, gives_the_tokenizer_alone_for_stop_strings)
{
    static const struct reply_constraint FREE = {.kind = REPLY_FREE};
    struct desk_rig rig;
    struct constraint_done done;
    size_t n_bytes;
    desk_rig_open(&rig, DESK_FOLDER, 8);
    const struct constraint_order *orders[] = {order(&rig, &FREE), order_regex(&rig, "b"),
                                               order(&rig, &FREE)};
    done = take(&rig, orders[0]);
    cr_assert_eq(done.status, STATUS_OK, "%s", done.error.text);
    cr_assert_null(done.constraint);
    cr_assert_eq(tokenizer_token_bytes(done.tokenizer, DESK_ID('k'), &n_bytes)[0], 'k');
    const struct tokenizer *tokenizer = done.tokenizer;
    expect_taken(&rig, orders[1], "b");
    done = take(&rig, orders[2]);
    cr_assert_eq(done.tokenizer, tokenizer, "it is loaded once");
    desk_rig_close(&rig);
}

Test(constraint_desk, what_is_wrong_is_said_with_its_field_and_ends_nothing_else)
{
    static const char *const SCHEMA[] = {"{\"type\": \"nothing\"}"};
    struct desk_rig rig;
    desk_rig_open(&rig, DESK_FOLDER, 8);
    const struct constraint_order *orders[] = {
        order_regex(&rig, "a(b"),
        order(&rig, &(struct reply_constraint){REPLY_JSON_SCHEMA, 1, SCHEMA}),
        order_regex(&rig, "b")};
    expect_fault(&rig, orders[0], STATUS_INVALID_ARGUMENT, "sampling.constraint.regex: ");
    expect_fault(&rig, orders[1], STATUS_INVALID_ARGUMENT, "sampling.constraint.json_schema: ");
    expect_taken(&rig, orders[2], "b");
    desk_rig_close(&rig);
}

Test(constraint_desk, so_many_may_wait_and_no_more)
{
    const char *regex = "a";
    const struct reply_constraint text = desk_rig_regex(&regex);
    struct desk_rig rig;
    struct constraint_order *refused = NULL;
    desk_rig_open(&rig, DESK_FOLDER, 2);
    const struct constraint_order *orders[] = {order_regex(&rig, "a"), order_regex(&rig, "b")};
    cr_assert_eq(constraint_desk_order(rig.desk, &text, 0, &refused), STATUS_QUEUE_FULL);
    cr_assert_null(refused);
    expect_taken(&rig, orders[0], "a");
    const struct constraint_order *more = order_regex(&rig, "c");
    expect_taken(&rig, orders[1], "b");
    expect_taken(&rig, more, "c");
    desk_rig_close(&rig);
}

Test(constraint_desk, tenants_take_turns)
{
    struct desk_rig rig;
    desk_rig_open(&rig, DESK_FOLDER, 16);
    const struct constraint_order *running = order_long(&rig);
    const struct constraint_order *many[] = {order_of(&rig, 1, "a"), order_of(&rig, 1, "b"),
                                             order_of(&rig, 1, "c"), order_of(&rig, 1, "d")};
    const struct constraint_order *few[] = {order_of(&rig, 2, "x"), order_of(&rig, 2, "y")};
    const struct constraint_order *one = order_of(&rig, 3, "z");
    expect_taken(&rig, running, "w");
    expect_taken(&rig, many[0], "a");
    expect_taken(&rig, few[0], "x");
    expect_taken(&rig, one, "z");
    expect_taken(&rig, many[1], "b");
    expect_taken(&rig, few[1], "y");
    expect_taken(&rig, many[2], "c");
    expect_taken(&rig, many[3], "d");
    desk_rig_close(&rig);
}

Test(constraint_desk, a_tenant_has_half_of_the_places)
{
    const char *regex = "x";
    const struct reply_constraint text = desk_rig_regex(&regex);
    struct desk_rig rig;
    struct constraint_order *refused = NULL;
    desk_rig_open(&rig, DESK_FOLDER, 7);
    const struct constraint_order *running = order_long(&rig);
    const struct constraint_order *many[] = {order_of(&rig, 1, "a"), order_of(&rig, 1, "b"),
                                             order_of(&rig, 1, "c"), order_of(&rig, 1, "d")};
    cr_assert_eq(constraint_desk_order(rig.desk, &text, 1, &refused), STATUS_QUEUE_FULL);
    const struct constraint_order *other = order_of(&rig, 2, "y");
    expect_taken(&rig, running, "w");
    expect_taken(&rig, many[0], "a");
    expect_taken(&rig, other, "y");
    for (uint32_t i = 1; i < 4; i++)
        expect_taken(&rig, many[i], &"a\0b\0c\0d"[2 * i]);
    desk_rig_close(&rig);
}

Test(constraint_desk, what_is_cancelled_is_never_taken)
{
    struct desk_rig rig;
    struct constraint_done done;
    desk_rig_open(&rig, DESK_FOLDER, 4);
    struct constraint_order *compiled = order_regex(&rig, "a");
    desk_rig_wait(&rig);
    struct constraint_order *running = order_long(&rig), *waiting = order_regex(&rig, "b");
    const struct constraint_order *last = order_regex(&rig, "c");
    constraint_desk_cancel(rig.desk, compiled);
    constraint_desk_cancel(rig.desk, waiting);
    constraint_desk_cancel(rig.desk, running);
    expect_taken(&rig, last, "c");
    cr_assert_not(constraint_desk_take(rig.desk, &done));
    for (int i = 0; i < 4; i++) /* none of them has a place */
        constraint_desk_cancel(rig.desk, order_regex(&rig, "d"));
    desk_rig_close(&rig);
}

Test(constraint_desk, goes_with_what_was_not_taken)
{
    struct desk_rig rig;
    desk_rig_open(&rig, DESK_FOLDER, 4);
    (void)order_regex(&rig, "a");
    desk_rig_wait(&rig);
    (void)order_long(&rig);
    (void)order_regex(&rig, "b");
    desk_rig_close(&rig);
}

Test(constraint_desk, without_a_tokenizer_each_order_is_told)
{
    struct desk_rig rig;
    desk_rig_open(&rig, KVFERRY_SOURCE_DIR "/tests/golden/models/llama_t4", 4);
    for (int i = 0; i < 2; i++)
        expect_fault(&rig, order_regex(&rig, "a"), STATUS_UNSUPPORTED,
                     "sampling.constraint.regex: the worker's model folder has no tokenizer");
    desk_rig_close(&rig);
}
