/* worker_fit: a worker is used when it is of its role, ready, and of the same tokenizer and model; a pair
 * when both say the same of their KV and neither has refused the other. Otherwise the reason names what
 * differs, on both sides. */
#include "router/workers/worker_fit.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define OURS   "0123456789abcdef0123456789abcdef"
#define THEIRS "fedcba9876543210fedcba9876543210"
#define SERVED "00112233445566778899aabbccddeeff"

static const uint64_t SERVED_DIGEST[2] = {0x0011223344556677, 0x8899aabbccddeeff};
static struct process_state state;
static const struct worker_wanted WANTED = {
    .role = KVFERRY__INTERNAL__V1__ROLE__ROLE_CONTEXT_WORKER,
    .tokenizer_digest = OURS,
    .model_digest = SERVED_DIGEST,
};

static void fitting_state(void)
{
    memset(&state, 0, sizeof state);
    state.role = WANTED.role;
    state.is_ready = true;
    state.model.vocabulary = 96;
    snprintf(state.model.tokenizer_digest, sizeof state.model.tokenizer_digest, OURS);
    state.model.has_geometry = true;
    state.model.geometry = (struct geometry){.n_layers = 5,
                                             .n_kv_heads = 2,
                                             .head_dim = 32,
                                             .block_tokens = 16,
                                             .dtype = KV_BF16,
                                             .model_digest = {SERVED_DIGEST[0], SERVED_DIGEST[1]}};
    snprintf(state.transport, sizeof state.transport, "am-tcp");
}

static void expect_reason(const struct worker_wanted *wanted, const char *expected)
{
    char reason[PEER_REASON_MAX];
    memset(reason, 'x', sizeof reason);
    cr_assert_eq(worker_fits(wanted, &state, reason), expected[0] == '\0');
    cr_assert_str_eq(reason, expected);
}

Test(worker_fit, the_same_tokenizer_and_model_fit)
{
    fitting_state();
    expect_reason(&WANTED, "");
    struct worker_wanted any = WANTED;
    any.model_digest = NULL;
    state.model.geometry.model_digest[0] = 0xfedcba9876543210;
    state.model.geometry.model_digest[1] = 0xfedcba9876543210;
    expect_reason(&any, "");
}

Test(worker_fit, another_tokenizer_or_model_is_named_on_both_sides)
{
    fitting_state();
    state.model.geometry.model_digest[0] = 0xfedcba9876543210;
    state.model.geometry.model_digest[1] = 0xfedcba9876543210;
    expect_reason(&WANTED, "its model is " THEIRS ", not " SERVED);
    snprintf(state.model.tokenizer_digest, sizeof state.model.tokenizer_digest, THEIRS);
    expect_reason(&WANTED, "its tokenizer is " THEIRS ", not " OURS);
}

Test(worker_fit, a_folder_without_a_tokenizer_is_believed)
{
    fitting_state();
    state.model.tokenizer_digest[0] = '\0';
    expect_reason(&WANTED, "");
}

Test(worker_fit, what_is_not_ready_says_so_first)
{
    fitting_state();
    snprintf(state.model.tokenizer_digest, sizeof state.model.tokenizer_digest, THEIRS);
    state.is_ready = false;
    expect_reason(&WANTED, "no progress");
    state.model.vocabulary = 0;
    expect_reason(&WANTED, "loading");
    state.is_draining = true;
    expect_reason(&WANTED, "draining");
    state.role = KVFERRY__INTERNAL__V1__ROLE__ROLE_GENERATION_WORKER;
    expect_reason(&WANTED, "serves another role");
}

Test(worker_fit, one_that_tells_no_geometry_is_not_used)
{
    fitting_state();
    state.model.has_geometry = false;
    expect_reason(&WANTED, "its state has no KV layout");
}

static struct process_state generation, context;
static struct process_peer peers[2];

static void fitting_pair(void)
{
    fitting_state();
    generation = context = state;
}

/* expected "": they fit. */
static void expect_pair(const char *expected)
{
    char reason[PEER_REASON_MAX];
    memset(reason, 'x', sizeof reason);
    cr_assert_eq(worker_pair_fits(&generation, &context, "host:1", reason), expected[0] == '\0');
    cr_assert_str_eq(reason, expected);
}

Test(worker_fit, a_pair_must_agree_on_its_kv)
{
    fitting_pair();
    expect_pair("");
    context.model.geometry.block_tokens = 32;
    expect_pair("KV layout: block_tokens is 16 here and 32 there; with kv_convert it is accepted");
    generation.kv_convert = true;
    expect_pair("");
    fitting_pair();
    context.model.geometry.dtype = KV_F32;
    context.kv_convert = true; /* it is the receiver that converts */
    expect_pair("KV layout: dtype is bf16 here and f32 there; with kv_convert it is accepted");
    generation.kv_convert = true;
    expect_pair("");
    fitting_pair();
    snprintf(context.transport, sizeof context.transport, "shm-read");
    expect_pair("transport is am-tcp here and shm-read there");
}

Test(worker_fit, other_numerics_are_paired_where_the_generation_worker_allows_them)
{
    static const char OURS_ID[] = "cpu-f32-fma-fma-compute-asis-1";
    static const char THEIRS_ID[] = "cpu-f32-fma-avx512_fp16-fp16-int8_group32-1";
    fitting_pair();
    snprintf(generation.model.geometry.numerics, NUMERICS_ID_MAX, OURS_ID);
    snprintf(context.model.geometry.numerics, NUMERICS_ID_MAX, OURS_ID);
    snprintf(generation.allow_numerics, sizeof generation.allow_numerics, "equal");
    expect_pair("");
    snprintf(context.model.geometry.numerics, NUMERICS_ID_MAX, THEIRS_ID);
    expect_pair("KV layout: numerics is cpu-f32-fma-fma-compute-asis-1 here and "
                "cpu-f32-fma-avx512_fp16-fp16-int8_group32-1 there; allow_numerics is equal");
    snprintf(context.allow_numerics, sizeof context.allow_numerics, "any");
    char reason[PEER_REASON_MAX];
    cr_assert_not(worker_pair_fits(&generation, &context, "host:1", reason), "who takes KV says");
    snprintf(generation.allow_numerics, sizeof generation.allow_numerics, "%s", THEIRS_ID);
    expect_pair("");
    /* A generation worker that is older than the ids judges none. */
    generation.allow_numerics[0] = generation.model.geometry.numerics[0] = '\0';
    expect_pair("");
}

Test(worker_fit, what_the_generation_worker_refused_is_not_paired)
{
    fitting_pair();
    generation.peers = peers;
    generation.n_peers = 2;
    snprintf(generation.peers[0].address, sizeof generation.peers[0].address, "host:2");
    snprintf(generation.peers[1].address, sizeof generation.peers[1].address, "host:1");
    snprintf(generation.peers[1].reason, sizeof generation.peers[1].reason, "its key is odd");
    generation.peers[0].is_refused = true;
    expect_pair("");
    generation.peers[1].is_refused = true;
    expect_pair("its key is odd");
}
