/* constraints: the first token fits; one that leaves none, or is none, ends its prompt alone, and the KV of it stays good. */
#include "tests/ctx_worker/support/ctx_rig.h"
#include "tests/engine/support/desk_rig.h"

enum { N_PROMPT = 35, N_BLOCKS = 20 };

struct setup {
    struct desk_rig desk;
    struct ctx_rig ctx;
};

static void open_setup(struct setup *setup)
{
    desk_rig_open(&setup->desk, DESK_FOLDER, 4);
    ctx_rig_open(&setup->ctx, (struct ctx_rig_options){.n_blocks = N_BLOCKS,
                                                       .slots_max = 2,
                                                       .queue_max = 2,
                                                       .queue_limit_ns = NS_PER_S,
                                                       .desk = setup->desk.desk});
}

static void close_setup(struct setup *setup)
{
    ctx_rig_close(&setup->ctx);
    desk_rig_close(&setup->desk);
}

/* Until it waits for its constraint. allowed: a token; 0: all. */
static void prefill(struct setup *setup, struct rig_stream *stream, const char *name,
                    const char *regex, uint32_t allowed)
{
    const struct token_rules rules = {
        .n_allowed = allowed > 0, .allowed_ids = &allowed, .constraint = desk_rig_regex(&regex)};
    struct sampling_params sampling = SAMPLING_GREEDY;
    sampling.rules = &rules;
    struct ctx_prefill_request request = ctx_rig_request(name, 1, N_PROMPT);
    request.input.sampling = &sampling;
    cr_assert_eq(ctx_engine_prefill(setup->ctx.engine, stream, &request, NULL), STATUS_OK);
    ctx_rig_step(&setup->ctx);
}

static void settle(struct setup *setup, int n_compiled)
{
    for (int i = 0; i < n_compiled; i++)
        desk_rig_wait(&setup->desk);
    ctx_rig_settle(&setup->ctx);
}

static const struct prefill_event *first_token(const struct rig_stream *stream)
{
    for (uint32_t i = 0; i < stream->n_events; i++)
        if (stream->kinds[i] == EVENT_FIRST_TOKEN)
            return &stream->events[i];
    return NULL;
}

Test(constraints, the_first_token_fits)
{
    struct setup setup;
    struct rig_stream one = {0}, some = {0};
    open_setup(&setup);
    prefill(&setup, &one, "a", "q[a-z]{3}", 0);
    prefill(&setup, &some, "b", "[k-m]{3}", 0);
    cr_assert_null(first_token(&one));
    settle(&setup, 2);
    cr_assert_not_null(first_token(&one));
    cr_assert_eq(first_token(&one)->first_token.token_id, DESK_ID('q'));
    cr_assert_not_null(strchr("klm", DESK_CHAR(first_token(&some)->first_token.token_id)));
    close_setup(&setup);
}

Test(constraints, that_cannot_be_met_end_their_prompt_alone)
{
    struct setup setup;
    struct rig_stream unmet = {0}, good = {0};
    open_setup(&setup);
    prefill(&setup, &unmet, "a", "q", DESK_ID('r'));
    prefill(&setup, &good, "b", "q", DESK_ID('q'));
    settle(&setup, 2);
    cr_assert_eq(unmet.n_finishes, 1);
    cr_assert_eq(unmet.status, STATUS_CONSTRAINT_UNMET, "%s", status_name(unmet.status));
    cr_assert_null(first_token(&unmet));
    cr_assert_not_null(first_token(&good));
    cr_assert_geq(ctx_rig_blocks(&setup.ctx, BLOCK_CACHED), N_PROMPT / RIG_BLOCK_TOKENS,
                  "its KV is as good as any");
    close_setup(&setup);
}

Test(constraints, that_are_wrong_or_left_end_before_anything_is_computed)
{
    struct setup setup;
    struct rig_stream wrong = {0}, left = {0};
    open_setup(&setup);
    prefill(&setup, &left, "a", "[a-z]{9}", 0);
    ctx_engine_stream_ended(setup.ctx.engine, &left);
    ctx_rig_step(&setup.ctx);
    cr_assert_eq(left.status, STATUS_CANCELLED);
    prefill(&setup, &wrong, "b", "q(", 0);
    while (wrong.n_finishes == 0)
        settle(&setup, 1);
    cr_assert_eq(left.n_finishes, 1);
    cr_assert_eq(wrong.status, STATUS_INVALID_ARGUMENT, "%s", status_name(wrong.status));
    cr_assert_eq(ctx_rig_blocks(&setup.ctx, BLOCK_FREE), N_BLOCKS);
    close_setup(&setup);
}

Test(constraints, an_abort_finds_who_waits_for_one)
{
    struct setup setup;
    struct rig_stream waits = {0}, again = {0};
    struct rig_call call = {0};
    open_setup(&setup);
    prefill(&setup, &waits, "a", "[a-z]{9}", 0);
    cr_assert_eq(waits.n_finishes, 0);
    cr_assert_eq(ctx_engine_abort(setup.ctx.engine, &call, "a"), STATUS_OK);
    prefill(&setup, &again, "a", "q[a-z]{3}", 0);
    cr_assert_eq(call.found, CTX_FOUND_QUEUED);
    cr_assert_eq(waits.n_finishes, 1);
    cr_assert_eq(waits.status, STATUS_CANCELLED);
    while (!first_token(&again))
        settle(&setup, 1);
    cr_assert_eq(first_token(&again)->first_token.token_id, DESK_ID('q'));
    cr_assert_eq(waits.n_finishes, 1);
    close_setup(&setup);
}

Test(constraints, who_waits_for_one_hears_of_the_backlog)
{
    struct setup setup;
    struct rig_stream first = {0}, waits = {0};
    char *text = desk_rig_long_regex();
    const char *regex = text;
    const struct token_rules rules = {.constraint = desk_rig_regex(&regex)};
    struct sampling_params sampling = SAMPLING_GREEDY;
    open_setup(&setup);
    setup.ctx.layer_ns = NS_PER_S;
    cr_assert_eq(ctx_rig_prefill(&setup.ctx, &first, "a", 1, 64), STATUS_OK);
    sampling.rules = &rules;
    struct ctx_prefill_request request = ctx_rig_request("b", 2, N_PROMPT);
    request.input.sampling = &sampling;
    request.takes_backlog = true;
    cr_assert_eq(ctx_engine_prefill(setup.ctx.engine, &waits, &request, NULL), STATUS_OK);
    ctx_rig_step(&setup.ctx);
    cr_assert_geq(waits.n_events, 1);
    cr_assert_eq(waits.kinds[0], EVENT_BACKLOG);
    cr_assert_eq(waits.events[0].backlog.n_tokens, 64 + N_PROMPT);
    ctx_engine_stream_ended(setup.ctx.engine, &waits);
    ctx_engine_stream_ended(setup.ctx.engine, &first);
    setup.ctx.layer_ns = 0;
    ctx_rig_settle(&setup.ctx);
    free(text);
    close_setup(&setup);
}
