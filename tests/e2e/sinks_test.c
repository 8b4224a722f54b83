/* Replies with sinks: a split cluster has the tokens of one process, also where the reply is longer than the context, in few blocks,
 * and what a reply does not see does not cross. */
#include "support/command.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_REQUESTS = 5, N_TOKENS = 500 };

#define MODEL KVFERRY_DEMO_MODEL

TestSuite(sinks, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {40, 99, 128, 700, 1300};

static uint64_t expect_split(const char *const *flags)
{
    return expect_split_is_single(flags, LENGTHS, N_REQUESTS, N_TOKENS);
}

Test(sinks, what_no_token_of_the_reply_sees_does_not_cross)
{
    const uint64_t of_all = expect_split((const char *const[]){NULL});
    const uint64_t of_some = expect_split(
        (const char *const[]){"--attention-window", "100", "--sink-tokens", "4", NULL});
    cr_expect_lt(of_some, of_all / 2);
}

/* Of a wider window: a request may ask for less. */
Test(sinks, a_request_may_have_a_window_of_its_own)
{
    static const char *const WIDE[] = {"--attention-window", "700", "--sink-tokens", "4", NULL};
    static const char *const NARROW[] = {"--attention-window", "100", "--sink-tokens", "4", NULL};
    char *texts[2];
    for (int i = 0; i < 2; i++) {
        struct cluster cluster;
        cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1,
                                                          .n_generations = 1,
                                                          .context = i ? NARROW : WIDE,
                                                          .generation = i ? NARROW : WIDE});
        RUN("generate", "--server", address_of(cluster.router.grpc), "--ignore-eos",
            "--temperature", "0", "--max-tokens", "700", "--reply-window", "100", "--prompt-file",
            KVFERRY_SOURCE_DIR "/tests/golden/README.md");
        EXPECT_OK();
        texts[i] = strdup(last_command.out);
        cr_expect_gt(strlen(texts[i]), 500);
        static const char *const BAD[] = {"4", "1", "701"};
        for (size_t k = 0; k < sizeof BAD / sizeof *BAD && i == 0; k++) {
            RUN("generate", "--server", address_of(cluster.router.grpc), "--reply-window", BAD[k],
                "In");
            cr_expect_neq(last_command.exit_status, 0);
            cr_expect(strstr(last_command.err,
                             "it must be over sink_tokens, 4, and at most the workers' "
                             "attention_window, 700"),
                      "%s", last_command.err);
        }
        cluster_wait_quiet(&cluster);
        cluster_stop(&cluster);
    }
    cr_expect_str_eq(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){.n_contexts = 1, .n_generations = 1});
    RUN("generate", "--server", address_of(cluster.router.grpc), "--reply-window", "64", "In");
    cr_expect(
        strstr(last_command.err, "sampling.reply_window is 64; the workers have no sink_tokens"),
        "%s", last_command.err);
    cluster_stop(&cluster);
}

Test(sinks, blocks_chunks_and_types)
{
    (void)expect_split((const char *const[]){
        "--attention-window", "65", "--sink-tokens", "1", "--kv-block-tokens", "8",
        "--prefill-chunk-tokens", "24", "--prefill-batch-tokens", "24", "--kv-digest", NULL});
    (void)expect_split((const char *const[]){"--attention-window", "300", "--sink-tokens", "100",
                                             "--kv-block-tokens", "32", "--kv-dtype", "f16",
                                             "--kv-scrub", NULL});
    (void)expect_split((const char *const[]){"--attention-window", "100", "--sink-tokens", "8",
                                             "--kv-block-tokens", "128", "--kv-dtype", "f32",
                                             NULL});
}

/* 200 blocks hold a prompt of the longest context, or some replies of any length. */
Test(sinks, replies_are_longer_than_the_context)
{
    static const char *const FLAGS[] = {
        "--attention-window", "100", "--sink-tokens", "4", "--kv-blocks", "200", NULL};
    struct cluster cluster;
    cluster_start(&cluster,
                  &(struct cluster_options){
                      .n_contexts = 1, .n_generations = 1, .context = FLAGS, .generation = FLAGS});
    RUN("generate", "--server", address_of(cluster.router.grpc), "--ignore-eos", "--temperature",
        "0", "--max-tokens", "6000", "--verbose", "In the beginning");
    EXPECT_OK();
    cr_expect(strstr(last_command.err, "6000 generated"), "%s", last_command.err);
    RUN("generate", "--server", address_of(cluster.router.grpc), "--max-tokens", "2000000",
        "In the beginning");
    cr_expect_neq(last_command.exit_status, 0);
    cr_expect(strstr(last_command.err, "they need a context of 2000006; the model has 1048576"),
              "%s", last_command.err);
    cluster_wait_quiet(&cluster);
    cluster_stop(&cluster);
}

/* Of parts of a text, as eval prints them. */
static double perplexity_of(const char *out, uint32_t part)
{
    char label[32];
    snprintf(label, sizeof label, "\npart %-10u ", part);
    const char *line = strstr(out, label);
    cr_assert(line, "%s", out);
    return strtod(line + strlen(label), NULL);
}

/* The model's own words: what it says late is as likely as what it says early, and is so for a reader with sinks, too. */
Test(sinks, perplexity_stays_what_it_is)
{
    static const char *const FLAGS[] = {"--attention-window", "200", "--sink-tokens", "4", NULL};
    struct cluster cluster;
    cluster_start(&cluster,
                  &(struct cluster_options){
                      .n_contexts = 1, .n_generations = 1, .context = FLAGS, .generation = FLAGS});
    RUN("generate", "--server", address_of(cluster.router.grpc), "--ignore-eos", "--temperature",
        "0.8", "--seed", "5", "--max-tokens", "5000", "In the beginning");
    EXPECT_OK();
    cluster_stop(&cluster);
    char text[160];
    snprintf(text, sizeof text, "%s/text.txt", command_folder);
    FILE *file = fopen(text, "w");
    cr_assert(file && fputs(last_command.out, file) >= 0 && fclose(file) == 0);
    RUN("eval", MODEL, "--text", text, "--window-tokens", "5000", "--attention-window", "200",
        "--sink-tokens", "4", "--parts", "5");
    EXPECT_OK();
    for (uint32_t part = 2; part <= 5; part++) {
        const double ratio = perplexity_of(last_command.out, part) /
                             perplexity_of(last_command.out, 1);
        cr_expect(ratio > 0.6 && ratio < 1.4, "%s", last_command.out);
    }
}

Test(sinks, check_model_says_what_a_reply_takes)
{
    RUN("check-model", MODEL, "--attention-window", "128", "--sink-tokens", "4");
    EXPECT_OK();
    cr_expect(strstr(last_command.out, "sinks           a token of a reply sees the first 4 tokens "
                                       "and the last 124: a sequence of up to 1048576 takes "),
              "%s", last_command.out);
    RUN("check-model", MODEL, "--attention-window", "64,0", "--sink-tokens", "4");
    cr_expect_neq(last_command.exit_status, 0);
    cr_expect(strstr(last_command.err, "expected one number"), "%s", last_command.err);
}

Test(sinks, bad_rows_are_refused)
{
    static const struct {
        const char *window, *sinks, *says;
    } BAD[] = {
        {"", "4", "sink_tokens is 4, and attention_window is \"\": expected one number"},
        {"64,0", "4", "attention_window is \"64,0\": expected one number"},
        {"x", "4", "attention_window is \"x\": expected one number"},
        {"-64", "4", "attention_window is \"-64\": expected one number"},
        {" 64", "4", "attention_window is \" 64\": expected one number"},
        {"64 ", "4", "attention_window is \"64 \": expected one number"},
        {"1e3", "4", "attention_window is \"1e3\": expected one number"},
        {"99999999999999999999", "4", "expected one number"},
        {"64", "64", "sink_tokens is 64 of an attention_window of 64: expected fewer"},
        {"0", "1", "sink_tokens is 1 of an attention_window of 0: expected fewer"},
        {"2048", "4", "takes up to 2176 in blocks of 16, and the context has 2048"},
        {"64", "-1", "--sink-tokens: \"-1\" is not a whole number"},
        {"64", "1048577", "--sink-tokens: 1048577 is not between 0 and 1048576"},
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        RUN("gen-worker", MODEL, "--dry-run", "--attention-window", BAD[i].window, "--sink-tokens",
            BAD[i].sinks);
        cr_expect_neq(last_command.exit_status, 0);
        cr_expect(strstr(last_command.err, BAD[i].says), "%s: %s", BAD[i].says, last_command.err);
    }
    RUN("gen-worker", MODEL, "--dry-run", "--attention-window", "64", "--sink-tokens", "4",
        "--capacity-policy", "max-utilization");
    cr_expect(strstr(last_command.err, "sink_tokens is 4, and capacity_policy is max-utilization"),
              "%s", last_command.err);
    RUN("gen-worker", MODEL, "--dry-run", "--attention-window", "64", "--sink-tokens", "4",
        "--kv-manager", "contiguous");
    cr_expect(
        strstr(last_command.err, "sink_tokens is 4, and kv_manager contiguous keeps all tokens"),
        "%s", last_command.err);
}

Test(sinks, workers_with_other_sinks_are_not_paired)
{
    struct cluster cluster;
    cluster_start(&cluster, &(struct cluster_options){
                                .n_contexts = 1,
                                .n_generations = 1,
                                .n_misfits = 1,
                                .context = (const char *const[]){"--attention-window", "100",
                                                                 "--sink-tokens", "4", NULL},
                                .generation = (const char *const[]){"--attention-window", "100",
                                                                    "--sink-tokens", "8", NULL}});
    RUN("ps", "--control", address_of(cluster.router.control));
    EXPECT_OK();
    cr_expect(strstr(last_command.out, "KV layout: sink_tokens is "), "%s", last_command.out);
    cluster_stop(&cluster);
}
