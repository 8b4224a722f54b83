/* overflow: a request whose logits are not finite ends with LOGITS_NOT_FINITE, on either worker, and other requests do not. It is
 * counted, has no blocks, and no other request uses what it computed. */
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>
#include <string.h>

enum { N_PROMPT = 35, N_TOKENS = 8 };

static void ask_here(struct gen_rig *rig, struct rig_client *client, const char *name,
                     uint32_t n_prompt)
{
    const struct sampling_params sampling = gen_rig_sampling(N_TOKENS);
    struct gen_request request = gen_rig_request(name, (uint32_t)name[0], n_prompt, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig->engine, client, &request, NULL), STATUS_OK);
}

static bool has_token(const uint32_t *tokens, uint32_t n, uint32_t token)
{
    for (uint32_t i = 0; i < n; i++)
        if (tokens[i] == token)
            return true;
    return false;
}

static struct gen_rig_options overflowing(uint32_t token)
{
    struct gen_rig_options options = ROOMY;
    options.overflows = true;
    options.overflow_token = token;
    return options;
}

/* The tokens of the request where nothing overflows. */
static void expect_of(const char *name, struct rig_client *client)
{
    struct gen_rig rig;
    gen_rig_open(&rig, overflowing(OVERFLOW_NOWHERE));
    ask_here(&rig, client, name, N_PROMPT);
    gen_rig_settle(&rig);
    expect_ended(client, STATUS_OK);
    gen_rig_close(&rig);
}

/* Finds a token that these prompts do not have, and that the first of them generates after other tokens. Returns how many come
 * before it. */
static uint32_t choose_token(const char *name, const struct rig_client *client, const char *other,
                             const struct rig_client *of_other, uint32_t *token_out)
{
    const struct sampling_params sampling = gen_rig_sampling(N_TOKENS);
    for (uint32_t i = 0; i + 1 < N_TOKENS; i++) {
        uint32_t token = client->tokens[i];
        struct gen_request request = gen_rig_request(name, (uint32_t)name[0], N_PROMPT, &sampling);
        bool is_known = has_token(request.input.token_ids, N_PROMPT, token);
        request = gen_rig_request(other, (uint32_t)other[0], N_PROMPT, &sampling);
        is_known = is_known || has_token(request.input.token_ids, N_PROMPT, token) ||
                   has_token(client->tokens, i, token) ||
                   has_token(of_other->tokens, N_TOKENS, token);
        *token_out = token;
        if (!is_known && i > 0)
            return i;
    }
    return 0;
}

static uint64_t rows_not_finite(struct gen_rig *rig)
{
    struct gen_engine_stats stats;
    gen_engine_read_stats(rig->engine, &stats);
    return stats.rows_not_finite;
}

Test(overflow, of_a_generated_token_ends_its_request_behind_it_and_no_other)
{
    static const char *const NAMES[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
    uint32_t n_told = 0, token = 0, name = 0;
    struct rig_client expected, of_other;
    for (; name + 1 < sizeof NAMES / sizeof *NAMES && n_told == 0; name++) {
        memset(&expected, 0, sizeof expected);
        memset(&of_other, 0, sizeof of_other);
        expect_of(NAMES[name], &expected);
        expect_of(NAMES[name + 1], &of_other);
        n_told = choose_token(NAMES[name], &expected, NAMES[name + 1], &of_other, &token);
    }
    cr_assert_gt(n_told, 0, "no prompt generates a token that is new to it");
    name--;

    struct gen_rig rig;
    struct rig_client client = {0}, other = {0};
    gen_rig_open(&rig, overflowing(token));
    ask_here(&rig, &client, NAMES[name], N_PROMPT);
    ask_here(&rig, &other, NAMES[name + 1], N_PROMPT);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_LOGITS_NOT_FINITE);
    expect_ended(&other, STATUS_OK);
    cr_assert_eq(client.n_tokens, n_told + 1, "all up to the one that overflows");
    cr_assert_arr_eq(client.tokens, expected.tokens, client.n_tokens * sizeof *client.tokens);
    cr_assert_arr_eq(other.tokens, of_other.tokens, N_TOKENS * sizeof *other.tokens);
    cr_assert_eq(rows_not_finite(&rig), 1);
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(overflow, of_a_prompt_computed_here_leaves_nothing_in_the_prefix_cache)
{
    const struct sampling_params sampling = gen_rig_sampling(N_TOKENS);
    const struct gen_request request = gen_rig_request("a", 'a', N_PROMPT, &sampling);
    struct gen_rig rig;
    struct rig_client client = {0}, again = {0};
    gen_rig_open(&rig, overflowing(request.input.token_ids[4]));
    ask_here(&rig, &client, "a", N_PROMPT);
    gen_rig_settle(&rig);
    expect_ended(&client, STATUS_LOGITS_NOT_FINITE);
    cr_assert_eq(client.n_tokens, 0);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_FREE), ROOMY.n_blocks);
    ask_here(&rig, &again, "a", N_PROMPT);
    gen_rig_settle(&rig);
    expect_ended(&again, STATUS_LOGITS_NOT_FINITE);
    cr_assert_eq(again.finish.cached_tokens, 0);
    cr_assert_eq(rows_not_finite(&rig), 2);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_FREE), ROOMY.n_blocks);
    gen_rig_close(&rig);
}

/* Computed here, it would have the same bits. */
Test(overflow, of_a_context_worker_ends_the_request_without_computing_it_again)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    gen_rig_ask(&rig, &client, "a", N_PROMPT, N_TOKENS);
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    gen_rig_end(&rig, STATUS_LOGITS_NOT_FINITE);
    expect_ended(&client, STATUS_LOGITS_NOT_FINITE);
    cr_assert_eq(client.n_tokens, 0);
    cr_assert_eq(client.finish.timing.kv_tokens_recomputed, 0);
    cr_assert_eq(rows_not_finite(&rig), 0, "it is the context worker that counts it");
    expect_all_free_or_cached(&rig);
    gen_rig_close(&rig);
}

Test(overflow, of_a_context_worker_with_other_numerics_is_computed_here)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    gen_rig_open(&rig, ROOMY);
    rig.has_other_numerics = true;
    gen_rig_ask(&rig, &client, "a", N_PROMPT, N_TOKENS);
    gen_rig_describe(&rig);
    gen_rig_accept(&rig);
    gen_rig_end(&rig, STATUS_LOGITS_NOT_FINITE);
    expect_ended(&client, STATUS_OK);
    cr_assert_eq(client.n_tokens, N_TOKENS);
    gen_rig_close(&rig);
}
