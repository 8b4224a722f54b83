/* K and V of 8 bits: calibrated by the command, a split cluster has the tokens of one process, what crosses is smaller, and workers
 * with other scales refuse each other by name. */
#include "support/command.h"
#include "support/expect.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { N_REQUESTS = 6, N_TOKENS = 40 };

#define TEXT  KVFERRY_SOURCE_DIR "/cli/demo_prompt.txt"
#define MODEL KVFERRY_DEMO_MODEL

TestSuite(kv_dtype, .init = command_folder_make, .fini = command_folder_remove);

static const uint32_t LENGTHS[N_REQUESTS] = {9, 40, 41, 300, 511, 900};

static const char *make_scales(const char *name, const char *tokens_max)
{
    static char paths[2][160];
    static uint32_t n;
    char *path = paths[n++ % 2];
    snprintf(path, sizeof paths[0], "%s", in_folder(name));
    RUN("calibrate", MODEL, "--text", TEXT, "--tokens-max", tokens_max, "--out", path);
    EXPECT_OK();
    cr_expect(strstr(last_command.out, path), "%s", last_command.out);
    return path;
}

static uint64_t expect_split(const char *const *flags)
{
    return expect_split_is_single(flags, LENGTHS, N_REQUESTS, N_TOKENS);
}

Test(kv_dtype, a_split_cluster_has_the_tokens_of_one_process)
{
    const char *scales = make_scales("scales", "0");
    const uint64_t of_bf16 = expect_split((const char *const[]){"--kv-dtype", "bf16", NULL});
    const uint64_t of_int8 = expect_split(
        (const char *const[]){"--kv-dtype", "int8", "--kv-scales", scales, NULL});
    const uint64_t of_e4m3 = expect_split(
        (const char *const[]){"--kv-dtype", "e4m3", "--kv-scales", scales, "--kv-digest", NULL});
    cr_expect_gt(of_bf16, 0);
    cr_expect_eq(2 * of_int8, of_bf16);
    cr_expect_eq(2 * of_e4m3, of_bf16);
}

/* One set of pauses more: a prompt and its reply are computed again with the same bits. */
Test(kv_dtype, pauses_change_no_token)
{
    const char *scales = make_scales("scales", "0");
    (void)expect_split((const char *const[]){"--kv-dtype", "int8", "--kv-scales", scales,
                                             "--kv-blocks", "90", "--kv-scrub", NULL});
}

/* A worker that does not start says why in its log. */
#define EXPECT_NO_START(part, ...)                                                                 \
    do {                                                                                           \
        RUN(__VA_ARGS__);                                                                          \
        cr_expect_eq(last_command.exit_status, 1, "%s", last_command.err);                         \
        cr_expect(strstr(last_command.err, part), "%s", last_command.err);                         \
    } while (0)

Test(kv_dtype, without_scales_e4m3_serves_and_int8_is_refused)
{
    EXPECT_NO_START("kv_dtype is int8, but " MODEL " has no scales of K and V: make them with",
                    "gen-worker", MODEL, "--kv-dtype", "int8");
    EXPECT_NO_START("kv_dtype is int8, but ", "serve", MODEL, "--kv-dtype", "int8");
    EXPECT_NO_START("with kv_dtype bf16: expected int8 or e4m3", "gen-worker", MODEL, "--kv-dtype",
                    "bf16", "--kv-scales", in_folder("none"));
    EXPECT_NO_START("none: No such file", "ctx-worker", MODEL, "--kv-dtype", "e4m3", "--kv-scales",
                    in_folder("none"));
    cr_expect_gt(expect_split((const char *const[]){"--kv-dtype", "e4m3", NULL}), 0);
}

Test(kv_dtype, other_scales_are_not_paired)
{
    const char *some = make_scales("some", "20"), *all = make_scales("all", "0");
    struct cluster cluster;
    cluster_start(
        &cluster,
        &(struct cluster_options){
            .n_contexts = 1,
            .n_generations = 1,
            .n_misfits = 1,
            .context = (const char *const[]){"--kv-dtype", "int8", "--kv-scales", some, NULL},
            .generation = (const char *const[]){"--kv-dtype", "int8", "--kv-scales", all, NULL}});
    RUN("ps", "--control", address_of(cluster.router.control));
    EXPECT_OK();
    cr_expect(strstr(last_command.out, "KV layout: kv_scales is "), "%s", last_command.out);
    cr_expect(strstr(last_command.out, "K and V are stored in other units"), "%s",
              last_command.out);
    cluster_stop(&cluster);
}

Test(kv_dtype, check_model_says_what_a_token_takes)
{
    const char *scales = make_scales("scales", "100");
    RUN("check-model", MODEL, "--kv-dtype", "bf16");
    EXPECT_OK();
    cr_expect(strstr(last_command.out, "1280 bytes a token, bf16"), "%s", last_command.out);
    cr_expect(strstr(last_command.out, "no scales for --kv-dtype int8"), "%s", last_command.out);
    RUN("check-model", MODEL, "--kv-dtype", "int8", "--kv-scales", scales);
    EXPECT_OK();
    cr_expect(strstr(last_command.out, "640 bytes a token, int8"), "%s", last_command.out);
    RUN("check-model", MODEL, "--kv-dtype", "int8");
    cr_expect_eq(last_command.exit_status, 1);
    cr_expect(strstr(last_command.err, "has no scales of K and V"), "%s", last_command.err);
}

Test(kv_dtype, calibrate_says_what_is_wrong)
{
    RUN("calibrate", MODEL);
    expect_refused("text is not set");
    RUN("calibrate", MODEL, "--text", in_folder("none.txt"));
    expect_refused("none.txt");
    RUN("calibrate", MODEL, "--text", TEXT, "--out", in_folder("no/folder"));
    expect_refused("no/folder cannot be written: No such file");
    struct stat now;
    cr_assert_eq(mkfifo(in_folder("fifo"), 0600), 0);
    RUN("calibrate", MODEL, "--text", TEXT, "--out", in_folder("fifo"));
    expect_refused("fifo cannot be written: it is not a regular file");
    cr_expect(stat(in_folder("fifo"), &now) == 0 && S_ISFIFO(now.st_mode), "it was replaced");
    RUN("calibrate", MODEL, "--text", TEXT, "--out", in_folder("."));
    expect_refused(". cannot be written: it is not a regular file");
    RUN("calibrate", MODEL, "--text", TEXT, "--window-tokens", "1000000");
    expect_refused("window_tokens is 1000000, the context of");
    RUN("calibrate", in_folder("no-model"), "--text", TEXT);
    expect_refused("no-model");
    if (access("/dev/full", F_OK) == 0) {
        RUN("calibrate", MODEL, "--text", TEXT, "--out", "/dev/full/x");
        expect_refused("/dev/full/x cannot be written: ");
    }
}
