/* trust: when a context worker contradicts itself, its cached blocks, all that was computed from them, and the sequences that use
 * them are dropped. When it died, restarted or left, they are kept. */
#include "gen_worker/trust.h"
#include "tests/gen_worker/support/gen_rig.h"

#include <criterion/criterion.h>

enum { ANOTHER_LIFE = RIG_OWNER + 1 };

/* What a context worker may do with a new hand-over. */
enum blow {
    WRONG_DIGEST,
    REFUSED_COMMIT,
    DESCRIBED_OTHERWISE,
    /* no contradiction: */
    REFUSED_COMMIT_AFTER_THE_STREAM,
    UNANSWERED_COMMIT,
    STALE_COMMIT,
    DIED,
    RESTARTED,
    ENDED_THE_LEASE,
    DESCRIBED_OTHERWISE_IN_ANOTHER_LIFE,
    N_BLOWS
};

static void commit_ends(struct gen_rig *rig, enum status status)
{
    gen_rig_hand_over(rig, 9);
    gen_engine_commit_result(rig->engine, rig->prefill, status, "");
}

static void strike(struct gen_rig *rig, enum blow blow)
{
    switch (blow) {
    case WRONG_DIGEST:
        gen_rig_describe(rig);
        gen_rig_ready(rig, 0, 5, 1);
        break;
    case REFUSED_COMMIT:
        commit_ends(rig, STATUS_NOT_HELD);
        break;
    case REFUSED_COMMIT_AFTER_THE_STREAM:
        gen_rig_hand_over(rig, 9);
        gen_rig_end(rig, STATUS_TIMED_OUT);
        gen_engine_commit_result(rig->engine, rig->prefill, STATUS_NOT_HELD, "");
        break;
    case UNANSWERED_COMMIT:
        commit_ends(rig, STATUS_TIMED_OUT);
        break;
    case STALE_COMMIT:
        commit_ends(rig, STATUS_STALE_PEER);
        break;
    case DIED:
        gen_rig_describe(rig);
        gen_rig_end(rig, STATUS_PEER_LOST);
        break;
    case RESTARTED:
        gen_rig_describe(rig);
        gen_rig_end(rig, STATUS_STALE_PEER);
        cr_assert_eq(gen_engine_drop_peer(rig->engine, RIG_OWNER), STATUS_OK);
        break;
    case ENDED_THE_LEASE:
        gen_rig_describe(rig);
        gen_rig_end(rig, STATUS_NOT_HELD);
        break;
    case DESCRIBED_OTHERWISE:
    case DESCRIBED_OTHERWISE_IN_ANOTHER_LIFE:
        cr_assert_eq(gen_engine_distrust(rig->engine,
                                         blow == DESCRIBED_OTHERWISE ? RIG_OWNER : ANOTHER_LIFE),
                     STATUS_OK);
        gen_rig_end(rig, STATUS_GEOMETRY_MISMATCH);
        break;
    case N_BLOWS:
        break;
    }
    gen_rig_settle(rig);
}

/* A complete request whose prompt the context worker computed. */
static void hand_one_over(struct gen_rig *rig, const char *name, uint32_t max_tokens)
{
    struct rig_client client = {0};
    gen_rig_ask(rig, &client, name, 35, max_tokens);
    gen_rig_hand_over(rig, 9);
    gen_engine_commit_result(rig->engine, rig->prefill, STATUS_OK, "");
    gen_rig_settle(rig);
    expect_ended(&client, STATUS_OK);
}

static void compute_one(struct gen_rig *rig, const char *name)
{
    struct rig_client client = {0};
    const struct sampling_params sampling = gen_rig_sampling(2);
    struct gen_request request = gen_rig_request(name, (uint32_t)name[0], 35, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig->engine, &client, &request, NULL), STATUS_OK);
    gen_rig_settle(rig);
    expect_ended(&client, STATUS_OK);
}

Test(trust, a_contradiction_drops_what_was_brought_and_nothing_else_does)
{
    for (enum blow blow = WRONG_DIGEST; blow < N_BLOWS; blow++) {
        bool is_contradiction = blow <= DESCRIBED_OTHERWISE;
        struct gen_rig rig;
        struct rig_client user = {0}, struck = {0}, again = {0};
        gen_rig_open(&rig, STRICT);
        compute_one(&rig, "c");
        uint32_t n_own = gen_rig_blocks(&rig, BLOCK_CACHED);
        hand_one_over(&rig, "a", 20);
        cr_assert_eq(gen_rig_blocks(&rig, BLOCK_CACHED), n_own + 6, "of prompt and generated");

        gen_rig_ask(&rig, &user, "a2", 48, 4);
        cr_assert_eq(rig.held_tokens, 32, "it begins with cached blocks");
        gen_rig_ask(&rig, &struck, "b", 35, 4);
        strike(&rig, blow);
        expect_ended(&struck, STATUS_TRANSFER_FAILED);
        if (is_contradiction) {
            expect_ended(&user, STATUS_TRANSFER_FAILED);
            cr_assert_eq(gen_rig_blocks(&rig, BLOCK_CACHED), n_own, "blow %d", blow);
        } else {
            cr_assert_eq(user.n_finishes, 0, "blow %d", blow);
        }
        gen_rig_ask(&rig, &again, "a3", 48, 4);
        cr_assert_eq(rig.held_tokens, is_contradiction ? 0 : 32, "blow %d", blow);
        gen_rig_close(&rig);
    }
}

Test(trust, sequences_that_decode_or_fetch_end_and_others_go_on)
{
    struct gen_rig rig;
    struct rig_client decoding = {0}, fetching = {0}, own = {0}, struck = {0};
    const struct sampling_params sampling = gen_rig_sampling(8);
    gen_rig_open(&rig, STRICT);
    gen_rig_ask(&rig, &fetching, "d", 35, 4);
    gen_rig_describe(&rig);
    gen_rig_ready(&rig, 0, 2, 0);
    gen_rig_ask(&rig, &decoding, "a", 35, 60);
    gen_rig_hand_over(&rig, 9);
    uint64_t of_decoding = rig.prefill;
    gen_rig_ask(&rig, &struck, "b", 35, 4);
    gen_rig_hand_over(&rig, 9);
    struct gen_request request = gen_rig_request("c", 'c', 10, &sampling);
    request.context_worker = "";
    cr_assert_eq(gen_engine_generate(rig.engine, &own, &request, NULL), STATUS_OK);
    gen_engine_commit_result(rig.engine, of_decoding, STATUS_OK, "");
    gen_rig_step(&rig);
    gen_rig_step(&rig);
    cr_assert_gt(decoding.n_tokens, 1);
    uint32_t n_before = decoding.n_tokens;

    gen_engine_commit_result(rig.engine, rig.prefill, STATUS_NOT_HELD, "");
    gen_rig_step(&rig);
    expect_ended(&decoding, STATUS_TRANSFER_FAILED);
    cr_assert_eq(decoding.n_tokens, n_before, "not one token more");
    expect_ended(&fetching, STATUS_TRANSFER_FAILED);
    expect_ended(&struck, STATUS_TRANSFER_FAILED);
    cr_assert_eq(own.n_finishes, 0);
    gen_rig_settle(&rig);
    expect_ended(&own, STATUS_OK);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_CACHED), 2, "its own 17 tokens'");
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_FREE), 62);
    gen_rig_close(&rig);
}

/* After its failed hand-over the prompt is computed here, but without earlier blocks from the same worker. */
Test(trust, a_fall_back_does_not_rest_on_what_is_not_believed)
{
    struct gen_rig rig;
    struct rig_client client = {0};
    struct gen_rig_options options = STRICT;
    options.no_local_prefill = false;
    gen_rig_open(&rig, options);
    hand_one_over(&rig, "a", 4);
    gen_rig_ask(&rig, &client, "a2", 48, 4);
    cr_assert_eq(rig.held_tokens, 32);
    gen_rig_describe(&rig);
    gen_rig_ready(&rig, 4, 2, 1);
    expect_ended(&client, STATUS_TRANSFER_FAILED);
    cr_assert_eq(client.n_tokens, 0);
    cr_assert_eq(gen_rig_blocks(&rig, BLOCK_FREE), 64);
    gen_rig_close(&rig);
}
