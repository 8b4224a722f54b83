/* rules: the first token follows them; rules that leave none end their prompt alone, whose KV stays good. */
#include "tests/ctx_worker/support/ctx_rig.h"

#include <criterion/criterion.h>

enum { N_PROMPT = 35, N_BLOCKS = 20 };

static const struct ctx_rig_options TWO = {
    .n_blocks = N_BLOCKS, .slots_max = 2, .queue_max = 2, .queue_limit_ns = NS_PER_S};

static enum status prefill(struct ctx_rig *rig, struct rig_stream *stream, const char *name,
                           const struct sampling_params *sampling)
{
    struct ctx_prefill_request request = ctx_rig_request(name, 1, N_PROMPT);
    request.input.sampling = sampling;
    return ctx_engine_prefill(rig->engine, stream, &request, NULL);
}

static const struct prefill_event *first_token(const struct rig_stream *stream)
{
    for (uint32_t i = 0; i < stream->n_events; i++)
        if (stream->kinds[i] == EVENT_FIRST_TOKEN)
            return &stream->events[i];
    return NULL;
}

Test(rules, the_first_token_follows_them)
{
    static const uint32_t ALLOWED[1] = {77};
    const struct token_rules rules = {.n_allowed = 1, .allowed_ids = ALLOWED};
    struct sampling_params sampling = SAMPLING_GREEDY;
    struct rig_stream plain = {0}, ended = {0}, allowed = {0};
    struct ctx_rig rig;
    ctx_rig_open(&rig, TWO);
    cr_assert_eq(prefill(&rig, &plain, "a", &sampling), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_not_null(first_token(&plain));
    cr_assert_eq(ctx_rig_commit(&rig, "a", 5), STATUS_OK);

    sampling.min_tokens = 1;
    sampling.n_stop_token_ids = 1;
    sampling.stop_token_ids[0] = first_token(&plain)->first_token.token_id;
    cr_assert_eq(prefill(&rig, &ended, "b", &sampling), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_neq(first_token(&ended)->first_token.token_id, sampling.stop_token_ids[0]);

    sampling.rules = &rules;
    cr_assert_eq(prefill(&rig, &allowed, "c", &sampling), STATUS_OK);
    sampling.rules = NULL; /* the engine has its own */
    ctx_rig_settle(&rig);
    cr_assert_eq(first_token(&allowed)->first_token.token_id, 77);
    ctx_rig_close(&rig);
}

Test(rules, that_leave_nothing_end_their_prompt_alone)
{
    static const uint32_t ALLOWED[1] = {77};
    const struct token_rules rules = {.n_allowed = 1, .allowed_ids = ALLOWED};
    struct sampling_params sampling = SAMPLING_GREEDY;
    struct rig_stream stream = {0}, good = {0};
    struct ctx_engine_stats stats;
    struct ctx_rig rig;
    ctx_rig_open(&rig, TWO);
    sampling.rules = &rules;
    sampling.min_tokens = sampling.n_stop_token_ids = 1;
    sampling.stop_token_ids[0] = 77;
    cr_assert_eq(prefill(&rig, &stream, "a", &sampling), STATUS_OK);
    cr_assert_eq(ctx_rig_prefill(&rig, &good, "b", 2, N_PROMPT), STATUS_OK);
    ctx_rig_settle(&rig);
    cr_assert_eq(stream.n_finishes, 1);
    cr_assert_eq(stream.status, STATUS_INVALID_ARGUMENT, "%s", status_name(stream.status));
    cr_assert_null(first_token(&stream));
    cr_assert_not_null(first_token(&good));
    ctx_engine_read_stats(rig.engine, &stats);
    cr_assert_eq(stats.rows_not_finite, 0);
    cr_assert_geq(ctx_rig_blocks(&rig, BLOCK_CACHED), N_PROMPT / RIG_BLOCK_TOKENS,
                  "its KV is as good as any");
    ctx_rig_close(&rig);
}
