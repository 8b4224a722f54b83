/* A draft model (--speculate model --draft-model) changes no token, whether its guesses are right or not, and is refused where it cannot
 * be one. */
#include "support/command.h"
#include "support/encoder_model.h"
#include "support/expect.h"
#include "support/latent_model.h"
#include "support/model_copy.h"
#include "support/recurrent_model.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_REQUESTS = 6, N_TOKENS = 150, LIMIT_MS = 120000, FILE_MAX = 1 << 20 };

TestSuite(draft_model, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 64, 127, 300, 700};

struct trial {
    const char *model, *draft;
    const char *const *both;           /* flags of all workers */
    const char *memory;                /* NULL: the default */
    bool is_short;                     /* of blocks, so that replies pause */
    enum { MIXED, WRONG, RIGHT } luck; /* RIGHT: nearly all guesses are, also of drawn tokens */
};

/* Half of the requests are drawn, half are the likeliest tokens. */
static void expect_no_change(const struct trial *trial)
{
    const char *const generation[] = {"--speculate",
                                      "model",
                                      "--draft-model",
                                      trial->draft,
                                      "--draft-memory",
                                      trial->memory ? trial->memory : "256M",
                                      "--local-prefill-max-tokens",
                                      "0",
                                      trial->is_short ? "--capacity-policy" : NULL,
                                      "max-utilization",
                                      "--capacity-headroom-blocks",
                                      "0",
                                      NULL};
    struct work work;
    struct cluster cluster;
    struct cluster_options options = {
        .model = trial->model, .n_generations = 1, .both = trial->both};
    work_create_of(&work, &options, LENGTHS, N_REQUESTS, N_TOKENS);
    options.n_contexts = 1;
    options.generation = generation;
    cluster_start(&cluster, &options);
    const struct child *worker = &cluster.generations[0];
    cr_expect_gt(expect_all_same(&work, &cluster, LIMIT_MS), 0);
    expect_round(&work, &cluster); /* one by one, and with what the draft model still has */
    const double drafted = child_metric(worker, "kvferry_draft_tokens_total", "");
    const double accepted = child_metric(worker, "kvferry_draft_tokens_accepted_total", "");
    printf("%s by %s: %.0f guessed, %.0f right\n", trial->model, trial->draft, drafted, accepted);
    cr_expect_gt(drafted, 0);
    cr_expect(!trial->is_short || child_metric(worker, "kvferry_decode_pauses_total", "") > 0);
    cr_expect(trial->luck != RIGHT || accepted > 0.8 * drafted);
    cr_expect(trial->luck != WRONG || accepted < 0.5 * drafted);
    cluster_stop(&cluster);
    work_destroy(&work);
}

Test(draft_model, that_is_the_model_itself_changes_no_token)
{
    expect_no_change(
        &(struct trial){.model = KVFERRY_DEMO_MODEL, .draft = KVFERRY_DEMO_MODEL, .luck = RIGHT});
}

/* The text of that name in the copy's file is replaced by one of the same length. */
static void edit_copy(const char *name, const char *from, const char *to)
{
    char path[256], *bytes = calloc(1, FILE_MAX);
    snprintf(path, sizeof path, "%s/%s", in_folder("model"), name);
    FILE *file = fopen(path, "r");
    cr_assert(file && bytes);
    const size_t n = fread(bytes, 1, FILE_MAX - 1, file);
    fclose(file);
    char *at = strstr(bytes, from);
    cr_assert(at && n < FILE_MAX - 1 && strlen(from) == strlen(to));
    memcpy(at, to, strlen(to));
    write_file(path, bytes, n);
    free(bytes);
}

Test(draft_model, of_the_first_layer_alone_changes_none)
{
    model_copy_make();
    edit_copy("config.json", "\"num_hidden_layers\": 5", "\"num_hidden_layers\": 1");
    expect_no_change(&(struct trial){.model = KVFERRY_DEMO_MODEL, .draft = in_folder("model")});
}

Test(draft_model, whose_text_is_nonsense_changes_none)
{
    model_copy_make();
    model_copy_widen_heads();
    expect_no_change(
        &(struct trial){.model = KVFERRY_DEMO_MODEL, .draft = in_folder("model"), .luck = WRONG});
}

Test(draft_model, of_a_model_with_latents_changes_none)
{
    expect_no_change(
        &(struct trial){.model = latent_model_make(),
                        .draft = KVFERRY_DEMO_MODEL,
                        .both = (const char *const[]){"--kv-block-tokens", "32", NULL}});
}

/* Its KV has room for a part of the replies. */
Test(draft_model, behind_pauses_and_with_little_memory_changes_none)
{
    expect_no_change(&(struct trial){
        .model = KVFERRY_DEMO_MODEL,
        .draft = KVFERRY_DEMO_MODEL,
        .both = (const char *const[]){"--kv-blocks", "90", "--kv-dtype", "f32", NULL},
        .memory = "1M",
        .is_short = true,
        .luck = RIGHT});
}

/* No guess, and no fault of a reply. */
Test(draft_model, that_overflows_guesses_nothing)
{
    static const char *const WORDS[] = {"--speculate", "model", "--draft-model", NULL, NULL};
    const char *generation[5];
    struct cluster cluster;
    model_copy_make();
    model_copy_overflow(2046); /* which each prompt begins with */
    memcpy(generation, WORDS, sizeof generation);
    generation[3] = in_folder("model");
    cluster_start(&cluster, &(struct cluster_options){
                                .n_contexts = 1, .n_generations = 1, .generation = generation});
    RUN("generate", "--server", address_of(cluster.router.grpc), "In the beginning", "--max-tokens",
        "50", "--temperature", "0", "--ignore-eos");
    EXPECT_OK();
    cr_expect_eq(child_metric(&cluster.generations[0], "kvferry_draft_tokens_total", ""), 0);
    cluster_stop(&cluster);
}

/* ---- what cannot draft ---- */

static void expect_no_start(const char *model, const char *draft, const char *why)
{
    RUN("gen-worker", model, "--speculate", "model", "--draft-model", draft, "--dry-run");
    cr_expect_eq(last_command.exit_status, 1, "%s", last_command.err);
    cr_expect(strstr(last_command.err, why), "%s: %s", why, last_command.err);
    RUN("gen-worker", model, "--speculate", "model", "--draft-model", draft, "--control-address",
        "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--metrics-address", "");
    cr_expect_eq(last_command.exit_status, 1, "%s", last_command.err);
    cr_expect(strstr(last_command.err, why), "%s: %s", why, last_command.err);
}

Test(draft_model, that_does_not_go_back_is_refused)
{
    expect_no_start(KVFERRY_DEMO_MODEL, recurrent_model_make(),
                    "draft_model has layers of recurrent state, which does not go back");
}

Test(draft_model, with_an_encoder_is_refused)
{
    expect_no_start(KVFERRY_DEMO_MODEL, encoder_model_make(), "draft_model has an encoder");
}

Test(draft_model, that_is_not_there_or_no_model_is_refused)
{
    expect_no_start(KVFERRY_DEMO_MODEL, in_folder("nothing"), "draft_model: ");
    cr_expect(strstr(last_command.err, "nothing"), "%s", last_command.err);
    expect_no_start(KVFERRY_DEMO_MODEL, KVFERRY_SOURCE_DIR "/docs", "draft_model: ");
    model_copy_make();
    model_copy_file("model.safetensors", 5000);
    expect_no_start(KVFERRY_DEMO_MODEL, in_folder("model"), "draft_model: ");
}

Test(draft_model, with_another_tokenizer_is_refused)
{
    model_copy_make();
    cr_assert_eq(remove(in_folder("model/tokenizer_config.json")), 0);
    edit_copy("tokenizer.json", "<|end_of_text|>", "<|end_of_word|>");
    expect_no_start(KVFERRY_DEMO_MODEL, in_folder("model"),
                    "draft_model has another tokenizer: its token 2047 is ");
    model_copy_file("tokenizer.json", FILE_MAX);
    edit_copy("tokenizer.json", "\"special\": true", "\"special\":false");
    expect_no_start(KVFERRY_DEMO_MODEL, in_folder("model"),
                    "draft_model has another tokenizer: token 2046, ");
    model_copy_take(KVFERRY_SOURCE_DIR "/tests/golden/tokenizer/llama3", "tokenizer.json");
    expect_no_start(KVFERRY_DEMO_MODEL, in_folder("model"), "draft_model has a tokenizer of ");
    cr_assert_eq(remove(in_folder("model/tokenizer.json")), 0);
    expect_no_start(KVFERRY_DEMO_MODEL, in_folder("model"), "which has no tokenizer");
    expect_no_start(in_folder("model"), KVFERRY_DEMO_MODEL, "the model has no tokenizer");
}

/* Files that differ and say the same. */
Test(draft_model, with_the_same_tokenizer_in_other_words_is_fine)
{
    model_copy_make();
    edit_copy("tokenizer.json", "\"special\": true", "\"special\":true ");
    RUN("gen-worker", KVFERRY_DEMO_MODEL, "--speculate", "model", "--draft-model",
        in_folder("model"), "--dry-run");
    EXPECT_OK();
    cr_expect(strstr(last_command.out, "draft model "), "%s", last_command.out);
}

#define EXPECT_BAD_ROWS(why, ...)                                                                  \
    do {                                                                                           \
        RUN("gen-worker", KVFERRY_DEMO_MODEL, "--dry-run", __VA_ARGS__);                           \
        cr_expect_eq(last_command.exit_status, 1, "%s", last_command.err);                         \
        cr_expect(strstr(last_command.err, why), "%s", last_command.err);                          \
    } while (0)

Test(draft_model, bad_rows_are_refused)
{
    EXPECT_BAD_ROWS("speculate is model, and draft_model is empty", "--speculate", "model");
    EXPECT_BAD_ROWS("draft_model is \"x\", and speculate is off: expected model", "--draft-model",
                    "x");
    EXPECT_BAD_ROWS("draft_model is \"x\", and speculate is lookup: expected model", "--speculate",
                    "lookup", "--draft-model", "x");
    EXPECT_BAD_ROWS("draft_memory is 4096 bytes, and 128 tokens of the draft model take ",
                    "--speculate", "model", "--draft-model", KVFERRY_DEMO_MODEL, "--draft-memory",
                    "4096");
    EXPECT_BAD_ROWS("speculate is model: tokens cannot be guessed with sink_tokens", "--speculate",
                    "model", "--draft-model", KVFERRY_DEMO_MODEL, "--attention-window", "64",
                    "--sink-tokens", "4");
    EXPECT_BAD_ROWS("draft_model has a context of ", "--speculate", "model", "--draft-model",
                    KVFERRY_DEMO_MODEL, "--max-context-tokens", "100");
}
