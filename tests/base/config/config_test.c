/* config: four sources in their order, and each kind of mistake stops with a sentence that names it. */

#include "base/config/config.h"
#include "tests/base/support/config_sample.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Test(config, defaults_fill_every_member)
{
    struct loaded loaded;
    load_ok(&(struct given){.yaml = NULL}, &loaded);
    cr_expect_not(loaded.values.is_on);
    cr_expect_eq(loaded.values.block_tokens, 32);
    cr_expect_eq(loaded.values.seed, 7);
    cr_expect_eq(loaded.values.ratio, 0.25);
    cr_expect_eq(loaded.values.pool_bytes, 64u << 20);
    cr_expect_eq(loaded.values.drain_ms, 30000);
    cr_expect_str_eq(loaded.values.address, "127.0.0.1:1");
    cr_expect_str_eq(loaded.values.token, "");
    cr_expect_eq(loaded.values.colour, GREEN);
    cr_expect_str_eq(config_source(loaded.config, "seed"), "default");
    cr_expect_not(config_answer(loaded.config, stdout));
    config_destroy(loaded.config);
    config_destroy(NULL);
}

Test(config, flag_beats_environment_beats_file_beats_default)
{
    struct loaded loaded;
    char source[100];
    load_ok(&(struct given){.arguments = {"--seed=1"},
                            .environment = {"KVFERRY_SEED=2", "KVFERRY_BLOCK_TOKENS=16"},
                            .yaml = "# three\nseed: 3\nblock_tokens: 64\npool-bytes: 2G\n"},
            &loaded);
    cr_expect_eq(loaded.values.seed, 1);
    cr_expect_eq(loaded.values.block_tokens, 16);
    cr_expect_eq(loaded.values.pool_bytes, 2ull << 30);
    cr_expect_eq(loaded.values.ratio, 0.25);
    cr_expect_str_eq(config_source(loaded.config, "seed"), "flag --seed");
    cr_expect_str_eq(config_source(loaded.config, "block_tokens"),
                     "environment KVFERRY_BLOCK_TOKENS");
    snprintf(source, sizeof source, "%s:4", loaded.path);
    cr_expect_str_eq(config_source(loaded.config, "pool_bytes"), source);
    config_destroy(loaded.config);
}

Test(config, a_file_may_be_named_by_the_environment)
{
    struct loaded loaded, second;
    char variable[100];
    load_ok(&(struct given){.yaml = ""}, &loaded); /* an empty file is fine */
    config_destroy(loaded.config);

    config_sample_write(&loaded, "colour: blue\n");
    snprintf(variable, sizeof variable, "KVFERRY_CONFIG=%s", loaded.path);
    load_ok(&(struct given){.environment = {variable}}, &second);
    cr_expect_eq(second.values.colour, BLUE);
    config_destroy(second.config);
    unlink(loaded.path);
}

Test(config, flags_come_in_their_usual_forms)
{
    struct loaded loaded;
    load_ok(&(struct given){.arguments = {"--is-on", "--block-size", "64", "--colour", "red",
                                          "--drain-ms=1m", "model", "--token", "", "--", "--seed"},
                            .usage = "MODEL MORE"},
            &loaded);
    cr_expect(loaded.values.is_on);
    cr_expect_eq(loaded.values.block_tokens, 64);
    cr_expect_eq(loaded.values.colour, RED);
    cr_expect_eq(loaded.values.drain_ms, 60000);
    cr_assert_eq(config_n_positionals(loaded.config), 2);
    cr_expect_str_eq(config_positional(loaded.config, 0), "model");
    cr_expect_str_eq(config_positional(loaded.config, 1), "--seed");
    cr_expect_str_eq(config_source(loaded.config, "block_tokens"), "flag --block-size");
    config_destroy(loaded.config);

    load_ok(&(struct given){.arguments = {"-b", "64", "--seed=1"}}, &loaded);
    cr_expect_eq(loaded.values.block_tokens, 64);
    config_destroy(loaded.config);
    load_ok(&(struct given){.arguments = {"-b=16"}}, &loaded);
    cr_expect_eq(loaded.values.block_tokens, 16);
    config_destroy(loaded.config);

    load_ok(&(struct given){.arguments = {"--is-on", "--no-is-on", "--seed=1", "--seed=2"}},
            &loaded);
    cr_expect_not(loaded.values.is_on);
    cr_expect_eq(loaded.values.seed, 2);
    config_destroy(loaded.config);
}

Test(config, sizes_and_durations_have_units)
{
    static const struct {
        const char *size, *duration;
        uint64_t bytes, ms;
    } cases[] = {{"1024", "0", 1024, 0},         {"3K", "17", 3072, 17},
                 {"3KiB", "500ms", 3072, 500},   {"3Ki", "1.5s", 3072, 1500},
                 {"3kB", "0.1m", 3000, 6000},    {"7MB", "0", 7000000, 0},
                 {"2GB", "0", 2000000000, 0},    {"1TB", "0", 1000000000000, 0},
                 {"1.5Gi", "0", 3ull << 29, 0},  {"1.5G", "0", 3ull << 29, 0},
                 {"0.5MiB", "0", 1u << 19, 0},   {"1.000001MB", "0", 1000001, 0},
                 {"4096B", "0", 4096, 0},        {"1024.0", "0", 1024, 0},
                 {"5M", "10s", 5u << 20, 10000}, {"2T", "5m", 2ull << 40, 300000}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct loaded loaded;
        load_ok(&(struct given){.arguments = {"--pool-bytes", cases[i].size, "--drain-ms",
                                              cases[i].duration}},
                &loaded);
        cr_expect_eq(loaded.values.pool_bytes, cases[i].bytes);
        cr_expect_eq(loaded.values.drain_ms, cases[i].ms);
        config_destroy(loaded.config);
    }
}

/* ---- mistakes ---- */

struct mistake {
    struct given given;
    enum status status;
    const char *sentence; /* @ stands for the file's path; ends with * when only the start counts */
};

static struct mistake mistakes[] = {
    {{.arguments = {"--colr=red"}},
     STATUS_INVALID_ARGUMENT,
     "unknown flag --colr; did you mean --colour?"},
    {{.arguments = {"--sede", "1"}},
     STATUS_INVALID_ARGUMENT,
     "unknown flag --sede; did you mean --seed?"},
    {{.arguments = {"--block_sise=16"}},
     STATUS_INVALID_ARGUMENT,
     "unknown flag --block_sise; did you mean --block-size?"},
    {{.arguments = {"--no-is_onn"}},
     STATUS_INVALID_ARGUMENT,
     "unknown flag --no-is_onn; did you mean --no-is-on?"},
    {{.arguments = {"--hlep"}},
     STATUS_INVALID_ARGUMENT,
     "unknown flag --hlep; did you mean --help?"},
    {{.arguments = {"--parnet=1"}}, STATUS_INVALID_ARGUMENT, "unknown flag --parnet"},
    {{.arguments = {"-x"}}, STATUS_INVALID_ARGUMENT, "unknown flag -x"},
    {{.arguments = {"--no-seed"}}, STATUS_INVALID_ARGUMENT, "unknown flag --no-seed"},
    {{.arguments = {"--seed"}}, STATUS_INVALID_ARGUMENT, "--seed needs a value"},
    {{.arguments = {"--address", "--is-on"}}, STATUS_INVALID_ARGUMENT, "--address needs a value"},
    {{.arguments = {"--config"}}, STATUS_INVALID_ARGUMENT, "--config needs a value"},
    {{.arguments = {"stray"}}, STATUS_INVALID_ARGUMENT, "unexpected argument \"stray\""},
    {{.arguments = {"--is-on", "yes"}},
     STATUS_INVALID_ARGUMENT,
     "--is-on takes no separate value: write --is-on=yes, not --is-on yes"},
    {{.arguments = {"model", "--is-on", "1"}, .usage = "MODEL"},
     STATUS_INVALID_ARGUMENT,
     "--is-on takes no separate value: write --is-on=1, not --is-on 1"},
    {{.arguments = {"--no-is-on", "off", "hello"}, .usage = "[TEXT]"},
     STATUS_INVALID_ARGUMENT,
     "--no-is-on takes no separate value: leave \"off\" out"},
    {{.arguments = {"In", "the"}, .usage = "[TEXT]"},
     STATUS_INVALID_ARGUMENT,
     "unexpected argument \"the\" after [TEXT] \"In\" (put an argument with spaces in quotes)"},
    {{.usage = "MODEL"}, STATUS_INVALID_ARGUMENT, "MODEL is missing: see --help"},
    {{.arguments = {"--check-config"}, .usage = "MODEL"},
     STATUS_INVALID_ARGUMENT,
     "MODEL is missing: see --help"},
    {{.arguments = {"--is-on=perhaps"}},
     STATUS_INVALID_ARGUMENT,
     "--is-on: \"perhaps\" is not true or false"},
    {{.arguments = {"--block-tokens=x"}},
     STATUS_INVALID_ARGUMENT,
     "--block-tokens: \"x\" is not a whole number"},
    {{.arguments = {"--block-tokens=-8"}},
     STATUS_INVALID_ARGUMENT,
     "--block-tokens: \"-8\" is not a whole number"},
    {{.arguments = {"--block-tokens=16M"}},
     STATUS_INVALID_ARGUMENT,
     "--block-tokens: \"16M\" is not a whole number"},
    {{.arguments = {"-bb", "64"}}, STATUS_INVALID_ARGUMENT, "unknown flag -bb"},
    {{.arguments = {"-x"}}, STATUS_INVALID_ARGUMENT, "unknown flag -x"},
    {{.arguments = {"--block-size=7"}},
     STATUS_INVALID_ARGUMENT,
     "--block-size: 7 is not between 8 and 128"},
    {{.arguments = {"--seed=18446744073709551616"}},
     STATUS_INVALID_ARGUMENT,
     "--seed: 18446744073709551616 is not between 0 and 18446744073709551615"},
    {{.arguments = {"--seed=1.0"}},
     STATUS_INVALID_ARGUMENT,
     "--seed: \"1.0\" is not a whole number"},
    {{.arguments = {"--ratio=1.5"}},
     STATUS_INVALID_ARGUMENT,
     "--ratio: 1.5 is not between 0 and 1"},
    {{.arguments = {"--ratio=nan"}}, STATUS_INVALID_ARGUMENT, "--ratio: \"nan\" is not a number"},
    {{.arguments = {"--ratio="}}, STATUS_INVALID_ARGUMENT, "--ratio: \"\" is not a number"},
    {{.arguments = {"--pool-bytes=1KB"}},
     STATUS_INVALID_ARGUMENT,
     "--pool-bytes: \"1KB\" is not a size such as 64M or 1.5Gi (powers of 1024) or 64MB (of 1000)"},
    {{.arguments = {"--pool-bytes=.5G"}},
     STATUS_INVALID_ARGUMENT,
     "--pool-bytes: \".5G\" is not a size such as *"},
    {{.arguments = {"--pool-bytes=1.G"}},
     STATUS_INVALID_ARGUMENT,
     "--pool-bytes: \"1.G\" is not a size such as *"},
    {{.arguments = {"--pool-bytes=1.3K"}},
     STATUS_INVALID_ARGUMENT,
     "--pool-bytes: 1.3K is not a whole number of bytes"},
    {{.arguments = {"--pool-bytes=1024.5"}},
     STATUS_INVALID_ARGUMENT,
     "--pool-bytes: 1024.5 is not a whole number of bytes"},
    {{.arguments = {"--drain-ms=1.5ms"}},
     STATUS_INVALID_ARGUMENT,
     "--drain-ms: 1.5ms is not a whole number of milliseconds"},
    {{.arguments = {"--pool-bytes=16777216T"}},
     STATUS_INVALID_ARGUMENT,
     "--pool-bytes: 16777216T is not between 1K and 18446744073709551615"},
    {{.arguments = {"--drain-ms=11m"}},
     STATUS_INVALID_ARGUMENT,
     "--drain-ms: 11m is not between 0ms and 10m"},
    {{.arguments = {"--drain-ms=s"}},
     STATUS_INVALID_ARGUMENT,
     "--drain-ms: \"s\" is not a duration such as 500ms or 10s"},
    {{.arguments = {"--colour=re"}},
     STATUS_INVALID_ARGUMENT,
     "--colour: \"re\" is not one of red|green|blue"},
    {{.environment = {"KVFERRY_SEED=abc"}},
     STATUS_INVALID_ARGUMENT,
     "KVFERRY_SEED: \"abc\" is not a whole number"},
    /* A bad value in the file counts even where a flag would beat it. */
    {{.arguments = {"--seed=1"}, .yaml = "colour: blue\nseed: x\n"},
     STATUS_INVALID_ARGUMENT,
     "@:2: seed: \"x\" is not a whole number"},
    {{.yaml = "seed: 1\ncolr: red\n"},
     STATUS_INVALID_ARGUMENT,
     "@:2: colr: unknown key; did you mean colour?"},
    {{.yaml = "zebra: 1\n"}, STATUS_INVALID_ARGUMENT, "@:1: zebra: unknown key"},
    {{.yaml = "texts: [a, [b]]\n"},
     STATUS_CORRUPT,
     "@:1: texts: expected a plain value, nothing nested"},
    {{.yaml = "texts: [a, {b: c}]\n"},
     STATUS_CORRUPT,
     "@:1: texts: expected a plain value, nothing nested"},
    {{.yaml = "texts: a\ntexts: [b]\n"},
     STATUS_INVALID_ARGUMENT,
     "@:2: texts: already given in line 1"},
    {{.yaml = "seed: 1\n\nseed: 2\n"},
     STATUS_INVALID_ARGUMENT,
     "@:3: seed: already given in line 1"},
    {{.yaml = "block-size: 64\nblock_tokens: 32\n"},
     STATUS_INVALID_ARGUMENT,
     "@:2: block_tokens: already given in line 1"},
    {{.yaml = "seed:\n"}, STATUS_INVALID_ARGUMENT, "@:1: seed: \"\" is not a whole number"},
    {{.yaml = "seed:\n  a: 1\n"},
     STATUS_CORRUPT,
     "@:2: seed: expected a plain value, nothing nested"},
    {{.yaml = "colour: [red]\n"},
     STATUS_CORRUPT,
     "@:1: colour: expected a plain value, nothing nested"},
    {{.yaml = "- seed\n"}, STATUS_CORRUPT, "@:1: expected one mapping of keys to values"},
    {{.yaml = "seed\n"}, STATUS_CORRUPT, "@:1: expected one mapping of keys to values"},
    {{.yaml = "seed: 1\n---\nratio: 1\n"},
     STATUS_CORRUPT,
     "@:3: expected one mapping of keys to values"},
    {{.yaml = "address: &a b\n"}, STATUS_CORRUPT, "@:1: address: anchors are not supported"},
    {{.yaml = "address: \"a\\0b\"\n"}, STATUS_CORRUPT, "@:1: address: a zero byte"},
    {{.yaml = "seed: 1\n\tratio: 1\n"}, STATUS_CORRUPT, "@:2: *"},
    {{.yaml = "seed: \"1\n"}, STATUS_CORRUPT, "@:*"},
    {{.arguments = {"--config=no/such/file.yaml"}},
     STATUS_NOT_FOUND,
     "no/such/file.yaml: No such file or directory"},
    {{.arguments = {"--config=."}}, STATUS_CORRUPT, ". is not a regular file"},
};

static void expect_sentence(const char *got, const char *pattern, const char *path)
{
    char expected[320];
    size_t length = 0;
    for (; *pattern && *pattern != '*'; pattern++)
        length += (size_t)snprintf(expected + length, sizeof expected - length, "%s",
                                   *pattern == '@' ? path : (char[]){*pattern, '\0'});
    cr_expect_eq(strncmp(got, expected, length), 0, "got: %s\nnot: %s", got, expected);
    cr_expect(*pattern == '*' || strlen(got) == length, "got: %s\nnot: %s", got, expected);
}

Test(config, every_mistake_has_its_sentence)
{
    for (unsigned i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        struct loaded loaded;
        enum status status = load(&mistakes[i].given, &loaded);
        cr_expect_eq(status, mistakes[i].status, "%s: %s", mistakes[i].sentence,
                     status_name(status));
        expect_sentence(loaded.error.text, mistakes[i].sentence, loaded.path);
        if (status == STATUS_OK)
            config_destroy(loaded.config);
    }
}

Test(config, a_file_is_bounded)
{
    char *text = malloc(CONFIG_FILE_BYTES_MAX + 2);
    struct loaded loaded;
    memset(text, '#', CONFIG_FILE_BYTES_MAX + 1);
    text[CONFIG_FILE_BYTES_MAX + 1] = '\0';
    cr_expect_eq(load(&(struct given){.yaml = text}, &loaded), STATUS_CORRUPT);
    cr_expect(strstr(loaded.error.text, "more than the limit of 1048576"), "%s", loaded.error.text);
    text[CONFIG_FILE_BYTES_MAX] = '\0';
    load_ok(&(struct given){.yaml = text}, &loaded);
    config_destroy(loaded.config);
    free(text);
}

/* By a path that is not a file's. */
static void expect_no_file(const char *path)
{
    struct loaded loaded;
    cr_expect_eq(load(&(struct given){.arguments = {"--config", path}}, &loaded), STATUS_CORRUPT);
    expect_sentence(loaded.error.text, "@ is not a regular file", path);
}

Test(config, a_fifo_or_a_device_is_refused_at_once, .timeout = 30)
{
    char folder[] = P_tmpdir "/config-XXXXXX", path[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/fifo", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    expect_no_file(path);
    expect_no_file(folder);
    expect_no_file("/dev/zero");
    unlink(path);
    rmdir(folder);
}

Test(config, a_good_configuration_leaves_no_sentence)
{
    struct loaded loaded;
    load_ok(&(struct given){.yaml = NULL}, &loaded);
    cr_expect_str_empty(loaded.error.text);
    config_destroy(loaded.config);
}

Test(config, a_variable_of_somebody_else_is_not_ours)
{
    struct loaded loaded;
    load_ok(&(struct given){.environment = {"KVFERRY_SERVICE_HOST=10.0.0.1", "KVFERRY_SEEDS=x",
                                            "XKVFERRY_SEED=x", "SEED=x"}},
            &loaded);
    cr_expect_eq(loaded.values.seed, 7);
    config_destroy(loaded.config);
}

/* ---- answers ---- */

static char *answer(const struct given *given, bool expected)
{
    struct loaded loaded;
    char *text = NULL;
    size_t bytes;
    load_ok(given, &loaded);
    FILE *out = open_memstream(&text, &bytes);
    cr_expect_eq(config_answer(loaded.config, out), expected);
    fclose(out);
    config_destroy(loaded.config);
    return text;
}

Test(config, help_shows_flag_unit_range_default_and_variable)
{
    char *text = answer(&(struct given){.arguments = {"--help", "x", "--seed=8"}}, true);
    cr_expect_eq(strncmp(text, "usage: kvferry sample [flags]\n", 30), 0, "%s", text);
    cr_expect_null(strstr(text, "parent"), "hidden: %s", text);
    cr_expect(strstr(text, "  --texts TEXT\n        some (may be repeated; KVFERRY_TEXTS)\n"));
    cr_expect(strstr(text, "  --block-tokens tokens\n        tokens in a block "
                           "(8 .. 128; default 32; KVFERRY_BLOCK_TOKENS)\n"));
    cr_expect(strstr(text, "a share (0 .. 1; default 0.25;"));
    cr_expect(strstr(text, "the pool (1K or more; default 64M;"));
    cr_expect(strstr(text, "how long a drain takes (0ms .. 10m; default 30s;"), "%s", text);
    cr_expect(strstr(text, "a seed (default 7;"), "a number without bounds has no range");
    cr_expect(strstr(text, "where (default 127.0.0.1:1;"), "nor has a text");
    cr_expect(strstr(text, "  --colour red|green|blue\n"));
    cr_expect(strstr(text, "  --block-size\n        the same as --block-tokens\n  -b\n        the "
                           "same as --block-tokens\n"));
    free(text);
}

Test(config, printing_masks_secrets_and_loads_again)
{
    struct loaded loaded;
    char *text = answer(
        &(struct given){.arguments = {"--print-config", "--token=hush", "--address=a \"b\"\\c\n",
                                      "--ratio=0.1", "--pool-bytes=1536K", "--drain-ms=90s",
                                      "--texts=a, \"b\"", "--texts=c"}},
        true);
    cr_expect_null(strstr(text, "hush"));
    cr_expect(strstr(text, "token: \"***\"  # flag --token\n"));
    cr_expect(strstr(text, "block_tokens: 32  # default\n"));
    cr_expect(strstr(text, "pool_bytes: 1536K  # flag --pool-bytes\n"));

    load_ok(&(struct given){.yaml = text}, &loaded);
    cr_expect_eq(loaded.values.texts.n, 2);
    cr_expect_str_eq(loaded.values.texts.texts[0], "a, \"b\"");
    cr_expect_eq(loaded.values.drain_ms, 90000);
    cr_expect_eq(loaded.values.pool_bytes, 1536u << 10);
    cr_expect_eq(loaded.values.ratio, 0.1);
    cr_expect_str_eq(loaded.values.address, "a \"b\"\\c\n");
    cr_expect_eq(loaded.values.colour, GREEN);
    config_destroy(loaded.config);
    free(text);
}

Test(config, checking_is_the_commands_and_still_refuses_mistakes)
{
    struct loaded loaded;
    load_ok(&(struct given){.arguments = {"--check-config"}}, &loaded);
    cr_expect(config_is_check(loaded.config));
    cr_expect_not(config_answer(loaded.config, stdout));
    config_destroy(loaded.config);
    cr_expect_eq(load(&(struct given){.arguments = {"--check-config", "--seed=x"}}, &loaded),
                 STATUS_INVALID_ARGUMENT);
}

#define BAD_CONFIG(X) X(block_tokens, U32(8, 128), "7", "", "its default is out of range")
CONFIG_DECLARE(bad_config, BAD_CONFIG);
CONFIG_DEFINE(bad_config, BAD_CONFIG, CONFIG_NO_ALIASES)

Test(config, a_bad_default_is_the_programmers_error, .signal = SIGABRT)
{
    struct bad_config values;
    struct config *config;
    const struct config_input input = {.command = "kvferry bad"};
    enum status status = config_load(bad_config_table(), &input, &values, &config, NULL);
    (void)status;
}

/* ---- switches ---- */

static bool is_check_of(const char *first, const char *second)
{
    struct loaded loaded;
    load_ok(&(struct given){.arguments = {first, second}}, &loaded);
    bool is_check = config_is_check(loaded.config);
    config_destroy(loaded.config);
    return is_check;
}

Test(config, a_switch_without_a_row_is_given_as_one_with_a_row)
{
    cr_expect(is_check_of("--check-config", NULL));
    cr_expect(is_check_of("--check_config", NULL));
    cr_expect(is_check_of("--check-config=yes", NULL));
    cr_expect_not(is_check_of("--check-config=no", NULL));
    cr_expect_not(is_check_of("--no-check-config", NULL));
    cr_expect_not(is_check_of("--check-config", "--check-config=off"), "the last counts");
    cr_expect(is_check_of("--no-check-config", "--check-config"));
    cr_expect(is_check_of("--check-config", "--print-config=no"));
}

static const struct {
    const char *flag, *sentence;
} BAD_SWITCHES[] = {
    {"--check-config=maybe", "--check-config: \"maybe\" is not true or false"},
    {"--strict-environment=", "--strict-environment: \"\" is not true or false"},
    {"--help=?", "--help: \"?\" is not true or false"},
    {"--is-on=maybe", "--is-on: \"maybe\" is not true or false"},
    {"--no-is-on=yes", "--no-is-on takes no value"},
    {"--no-check-config=yes", "--no-check-config takes no value"},
    {"--no-chek-config", "unknown flag --no-chek-config; did you mean --no-check-config?"},
    {"--no-config", "unknown flag --no-config"},
};

Test(config, a_switch_takes_yes_or_no_and_nothing_else)
{
    for (size_t i = 0; i < sizeof BAD_SWITCHES / sizeof *BAD_SWITCHES; i++) {
        struct loaded loaded;
        cr_expect_eq(load(&(struct given){.arguments = {BAD_SWITCHES[i].flag}}, &loaded),
                     STATUS_INVALID_ARGUMENT, "%s", BAD_SWITCHES[i].flag);
        cr_expect_str_eq(loaded.error.text, BAD_SWITCHES[i].sentence);
    }
    struct loaded loaded;
    cr_expect_eq(load(&(struct given){.arguments = {"--check-config", "no"}}, &loaded),
                 STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(loaded.error.text, "--check-config takes no separate value: write "
                                        "--check-config=no, not --check-config no");
}
