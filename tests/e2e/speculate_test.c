/* Guessed tokens (--speculate lookup) change no token, whatever a model's layers, its KV and the CPU's set; they do save passes; what
 * cannot go back is refused. With SPECULATE_ALL, every night: five models with four types of KV on three sets. */
#include "support/command.h"
#include "support/encoder_model.h"
#include "support/expect.h"
#include "support/latent_model.h"
#include "support/model_copy.h"
#include "support/recurrent_model.h"
#include "support/unequal_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_REQUESTS = 6, N_TOKENS = 200, LIMIT_MS = 120000 };

#define TEXT KVFERRY_SOURCE_DIR "/cli/demo_prompt.txt"

TestSuite(speculate, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 64, 127, 300, 700};

static bool is_short; /* of blocks, so that replies pause */

/* is_lucky: some guesses are right. more: flags of all workers. Half of the requests are drawn, half are the likeliest tokens. */
static void expect_no_change(const char *model, bool is_lucky, const char *const *more)
{
    const char *const LOOKUP[] = {"--speculate",
                                  "lookup",
                                  "--local-prefill-max-tokens",
                                  "0",
                                  is_short ? "--capacity-policy" : NULL,
                                  "max-utilization",
                                  "--capacity-headroom-blocks",
                                  "0",
                                  NULL};
    struct work work;
    struct cluster cluster;
    work_create_of(&work,
                   &(struct cluster_options){.model = model, .n_generations = 1, .both = more},
                   LENGTHS, N_REQUESTS, N_TOKENS);
    cluster_start(&cluster, &(struct cluster_options){.model = model,
                                                      .n_contexts = 1,
                                                      .n_generations = 1,
                                                      .both = more,
                                                      .generation = LOOKUP});
    const struct child *generation = &cluster.generations[0];
    cr_expect_gt(expect_all_same(&work, &cluster, LIMIT_MS), 0);
    expect_round(&work, &cluster); /* one by one, where drafts are longest */
    const double drafted = child_metric(generation, "kvferry_draft_tokens_total", "");
    const double accepted = child_metric(generation, "kvferry_draft_tokens_accepted_total", "");
    printf("%s %s: %.0f guessed, %.0f right\n", model, more[1] ? more[1] : "", drafted, accepted);
    cr_expect_gt(drafted, accepted);
    cr_expect(!is_short || child_metric(generation, "kvferry_decode_pauses_total", "") > 0);
    cr_expect(accepted > 0 || !is_lucky);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(speculate, no_type_of_kv_changes_a_token)
{
    static const char *const TYPES[] = {"f32", "f16", "int8"};
    char scales[300];
    snprintf(scales, sizeof scales, "%s", in_folder("scales"));
    RUN("calibrate", KVFERRY_DEMO_MODEL, "--text", TEXT, "--out", scales);
    EXPECT_OK();
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        const bool has_scales = strcmp(TYPES[i], "int8") == 0;
        expect_no_change(KVFERRY_DEMO_MODEL, true,
                         (const char *const[]){"--kv-dtype", TYPES[i],
                                               has_scales ? "--kv-scales" : NULL, scales, NULL});
    }
}

Test(speculate, windows_latents_and_small_sets_change_none)
{
    expect_no_change(KVFERRY_DEMO_MODEL, true,
                     (const char *const[]){"--attention-window", "64,0", "--force-window", NULL});
    expect_no_change(latent_model_make(), false,
                     (const char *const[]){"--kv-block-tokens", "32", NULL});
    cr_assert_eq(setenv("KVFERRY_CPU", "avx2", 1), 0);
    expect_no_change(KVFERRY_DEMO_MODEL, true, (const char *const[]){"--kv-dtype", "bf16", NULL});
}

/* ---- all of it ---- */

static const char *make_demo(void)
{
    return KVFERRY_DEMO_MODEL;
}

static const char *make_wide(void)
{
    model_copy_make();
    model_copy_widen_heads();
    return in_folder("model");
}

static const struct {
    const char *(*make)(void);
    const char *flags[4];
    bool is_lucky;
} MODELS[] = {
    {make_demo, {NULL}, true},
    {make_demo, {"--attention-window", "64,0", "--force-window"}, true},
    {make_wide, {NULL}, false},
    {unequal_model_make, {NULL}, false},
    {latent_model_make, {NULL}, false},
};

static bool has_scales(const char *type)
{
    return strcmp(type, "int8") == 0 || strcmp(type, "e4m3") == 0;
}

static void try_model(size_t of_model)
{
    static const char *const TYPES[] = {"f32", "bf16", "int8", "e4m3"};
    static const char *const SETS[] = {"sse2", "avx2", ""}; /* "": the fastest */
    char scales[300], model[300];
    if (!getenv("SPECULATE_ALL"))
        return;
    snprintf(model, sizeof model, "%s", MODELS[of_model].make());
    snprintf(scales, sizeof scales, "%s", in_folder("scales"));
    RUN("calibrate", model, "--text", TEXT, "--out", scales);
    EXPECT_OK();
    for (size_t type = 0; type < sizeof TYPES / sizeof *TYPES; type++)
        for (size_t set = 0; set < sizeof SETS / sizeof *SETS; set++) {
            const char *more[8] = {"--kv-dtype", TYPES[type]};
            uint32_t n = 2;
            for (const char *const *flag = MODELS[of_model].flags; *flag; flag++)
                more[n++] = *flag;
            if (has_scales(TYPES[type])) {
                more[n++] = "--kv-scales";
                more[n] = scales;
            }
            cr_assert_eq(setenv("KVFERRY_CPU", SETS[set], 1), 0);
            expect_no_change(model, MODELS[of_model].is_lucky, more);
        }
}

Test(speculate, every_type_and_set_of_llama)
{
    try_model(0);
}

Test(speculate, every_type_and_set_of_windows)
{
    try_model(1);
}

Test(speculate, every_type_and_set_of_wide_heads)
{
    try_model(2);
}

Test(speculate, every_type_and_set_of_unequal_heads)
{
    try_model(3);
}

Test(speculate, every_type_and_set_of_latents)
{
    try_model(4);
}

Test(speculate, pauses_change_none)
{
    is_short = true;
    expect_no_change(KVFERRY_DEMO_MODEL, true,
                     (const char *const[]){"--kv-blocks", "90", "--kv-scrub", NULL});
}

static void expect_no_start(const char *model, const char *why)
{
    RUN("gen-worker", model, "--speculate", "lookup", "--control-address", "127.0.0.1:0",
        "--health-address", "127.0.0.1:0", "--metrics-address", "");
    cr_expect_eq(last_command.exit_status, 1, "%s", last_command.err);
    cr_expect(strstr(last_command.err, why), "%s", last_command.err);
}

Test(speculate, a_state_that_does_not_go_back_is_refused)
{
    expect_no_start(recurrent_model_make(),
                    "speculate is lookup: tokens cannot be guessed with layers of recurrent state, "
                    "which does not go back; expected off");
}

Test(speculate, an_encoder_is_refused)
{
    expect_no_start(encoder_model_make(), "tokens cannot be guessed with a model with an encoder");
}

Test(speculate, bad_rows_are_refused)
{
    RUN("gen-worker", KVFERRY_DEMO_MODEL, "--speculate", "lookup", "--attention-window", "64",
        "--sink-tokens", "4", "--dry-run");
    cr_expect_eq(last_command.exit_status, 1, "%s", last_command.err);
    cr_expect(strstr(last_command.err, "tokens cannot be guessed with sink_tokens"), "%s",
              last_command.err);
    RUN("gen-worker", KVFERRY_DEMO_MODEL, "--speculate", "guess");
    cr_expect_neq(last_command.exit_status, 0);
    cr_expect(strstr(last_command.err, "guess"), "%s", last_command.err);
}

Test(speculate, a_reply_says_what_was_guessed)
{
    static const char *const LOOKUP[] = {"--speculate", "lookup", NULL};
    static const char *const PROMPT = "one two three four five six seven. one two three four five "
                                      "six seven. one two three four five six seven. one two";
    static char plain[sizeof last_command.out];
    for (int has_drafts = 0; has_drafts < 2; has_drafts++) {
        struct cluster cluster;
        cluster_start(&cluster,
                      &(struct cluster_options){.n_contexts = 1,
                                                .n_generations = 1,
                                                .generation = has_drafts ? LOOKUP : NULL});
        RUN("generate", "--server", address_of(cluster.router.grpc), PROMPT, "--max-tokens", "100",
            "--temperature", "0", "--ignore-eos", "--verbose");
        EXPECT_OK();
        if (has_drafts)
            cr_expect_str_eq(last_command.out, plain);
        cr_expect_eq(strstr(last_command.err, "guessed, ") != NULL, has_drafts, "%s",
                     last_command.err);
        memcpy(plain, last_command.out, sizeof plain);
        cluster_stop(&cluster);
    }
}
