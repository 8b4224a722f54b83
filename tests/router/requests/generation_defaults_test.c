/* generation_defaults: generation_config.json's sampling, bounded as a request's own is. */
#include "router/requests/generation_defaults.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* json NULL: no file. */
static enum status read_text(const char *json, struct generation_defaults *defaults_out,
                             struct error *error)
{
    char folder[] = P_tmpdir "/defaults-XXXXXX";
    char path[64];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    if (json) {
        FILE *file = fopen(path, "w");
        cr_assert_not_null(file);
        fputs(json, file);
        fclose(file);
    }
    memset(error, 0, sizeof *error);
    enum status status = generation_defaults_read(folder, defaults_out, error);
    unlink(path);
    rmdir(folder);
    return status;
}

static void expect(const char *json, float temperature, uint32_t top_k, float top_p, float penalty)
{
    struct generation_defaults defaults;
    struct error error;
    cr_assert_eq(read_text(json, &defaults, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(defaults.temperature, temperature, "%s", json ? json : "no file");
    cr_assert_eq(defaults.top_k, top_k);
    cr_assert_eq(defaults.top_p, top_p);
    cr_assert_eq(defaults.repetition_penalty, penalty);
}

Test(generation_defaults, absent_means_neutral)
{
    expect(NULL, 1, 0, 1, 1);
    expect("{}", 1, 0, 1, 1);
    expect("{\"temperature\": null, \"eos_token_id\": [1, 2]}", 1, 0, 1, 1);
}

Test(generation_defaults, reads_what_is_given)
{
    expect("{\"temperature\": 0.5, \"top_k\": 20, \"top_p\": 0.75, \"repetition_penalty\": 1.5}",
           0.5f, 20, 0.75f, 1.5f);
    expect("{\"do_sample\": false, \"temperature\": 0.5}", 0, 0, 1, 1);
    expect("{\"top_k\": 20.0, \"max_length\": 1000000000000000019884624838656}", 1, 20, 1, 1);
    expect("{\"do_sample\": true, \"temperature\": 0.5}", 0.5f, 0, 1, 1);
    expect("{\"num_beams\": 4}", 0, 0, 1, 1);
    expect("{\"num_beams\": 4, \"do_sample\": false}", 0, 0, 1, 1);
    expect("{\"num_beams\": 4, \"do_sample\": true, \"temperature\": 0.5}", 0.5f, 0, 1, 1);
    expect("{\"num_beams\": 1}", 1, 0, 1, 1);
    expect("{\"num_beams\": null, \"no_repeat_ngram_size\": 3}", 1, 0, 1, 1);
}

Test(generation_defaults, min_p_is_one_of_them)
{
    struct generation_defaults defaults;
    struct error error;
    cr_assert_eq(read_text("{\"min_p\": 0.25}", &defaults, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(defaults.min_p, 0.25f);
    cr_assert_eq(read_text("{\"min_p\": 1}", &defaults, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(defaults.min_p, 1);
    cr_assert_eq(read_text("{\"min_p\": 1.5}", &defaults, &error), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "min_p is 1.5; it must be 0 .. 1"), "%s", error.text);
}

Test(generation_defaults, filters_and_n_grams_are_of_them)
{
    struct generation_defaults defaults;
    struct error error;
    cr_assert_eq(read_text("{\"typical_p\": 0.25, \"epsilon_cutoff\": 0.125, \"eta_cutoff\": 0.5, "
                           "\"no_repeat_ngram_size\": 3}",
                           &defaults, &error),
                 STATUS_OK, "%s", error.text);
    cr_assert_eq(defaults.typical_p, 0.25f);
    cr_assert_eq(defaults.epsilon_cutoff, 0.125f);
    cr_assert_eq(defaults.eta_cutoff, 0.5f);
    cr_assert_eq(defaults.no_repeat_ngram_size, 3);
    cr_assert_eq(read_text("{}", &defaults, &error), STATUS_OK);
    cr_assert_eq(defaults.typical_p, 1);
    cr_assert_eq(defaults.epsilon_cutoff, 0);
    cr_assert_eq(defaults.eta_cutoff, 0);
    cr_assert_eq(defaults.no_repeat_ngram_size, 0);
    static const char *const WRONG[][2] = {
        {"{\"typical_p\": 0}", "typical_p is 0; it must be over 0, at most 1"},
        {"{\"epsilon_cutoff\": 1}", "epsilon_cutoff is 1; it must be 0 or more, below 1"},
        {"{\"eta_cutoff\": -0.5}", "eta_cutoff is -0.5; it must be 0 or more, below 1"},
        {"{\"no_repeat_ngram_size\": 65}",
         "no_repeat_ngram_size is 65; it must be a whole number, 0 .. 64"},
        {"{\"no_repeat_ngram_size\": 2.5}",
         "no_repeat_ngram_size is 2.5; it must be a whole number, 0 .. 64"},
    };
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        cr_assert_eq(read_text(WRONG[i][0], &defaults, &error), STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(error.text, WRONG[i][1]), "%s", error.text);
    }
}

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

Test(generation_defaults, config_json_has_a_say_only_in_folders_without_the_file)
{
    char folder[] = P_tmpdir "/defaults-XXXXXX";
    char path[64];
    struct generation_defaults defaults;
    struct error error = {""};
    cr_assert_not_null(mkdtemp(folder));
    write_file(folder, "config.json", "{\"temperature\": 0.5, \"hidden_size\": 32}");
    cr_assert_eq(generation_defaults_read(folder, &defaults, &error), STATUS_OK, "%s", error.text);
    cr_expect_eq(defaults.temperature, 0.5f);
    write_file(folder, "config.json", "{\"temperature\": -1}");
    cr_expect_eq(generation_defaults_read(folder, &defaults, &error), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, "config.json: temperature is -1"), "%s", error.text);
    write_file(folder, "generation_config.json", "{\"top_k\": 7}");
    cr_assert_eq(generation_defaults_read(folder, &defaults, &error), STATUS_OK, "%s", error.text);
    cr_expect(defaults.temperature == 1 && defaults.top_k == 7);
    static const char *const NAMES[] = {"config.json", "generation_config.json"};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, NAMES[i]);
        unlink(path);
    }
    cr_assert_eq(rmdir(folder), 0);
}

Test(generation_defaults, refuses_by_file_and_key)
{
    static const struct {
        const char *json;
        enum status status;
        const char *part;
    } CASES[] = {
        {"{\"temperature\": \"hot\"}", STATUS_CORRUPT, "temperature"},
        {"{\"do_sample\": \"no\"}", STATUS_CORRUPT, "do_sample"},
        {"{\"temperature\": -1}", STATUS_INVALID_ARGUMENT, "temperature is -1"},
        {"{\"top_p\": 0}", STATUS_INVALID_ARGUMENT, "top_p"},
        {"{\"top_p\": 1.5}", STATUS_INVALID_ARGUMENT, "top_p"},
        {"{\"top_k\": 1e12}", STATUS_INVALID_ARGUMENT, "top_k"},
        {"{\"top_k\": 2.5}", STATUS_INVALID_ARGUMENT, "top_k is 2.5"},
        {"{\"top_k\": -1}", STATUS_INVALID_ARGUMENT, "top_k is -1"},
        {"{\"temperature\": 1e300}", STATUS_INVALID_ARGUMENT, "temperature is 1e+300"},
        {"{\"temperature\": 101, \"do_sample\": false}", STATUS_INVALID_ARGUMENT, "temperature"},
        {"{\"repetition_penalty\": 0}", STATUS_INVALID_ARGUMENT, "repetition_penalty"},
        {"[]", STATUS_CORRUPT, "object"},
        {"{\n\"top_k\": 1,,\n}", STATUS_CORRUPT, "line 2"},
        {"{\"top_k\": 1, \"top_k\": 2}", STATUS_CORRUPT, "top_k"},
        {"", STATUS_CORRUPT, ""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct generation_defaults defaults;
        struct error error;
        cr_assert_eq(read_text(CASES[i].json, &defaults, &error), CASES[i].status, "case %zu: %s",
                     i, error.text);
        cr_assert_not_null(strstr(error.text, "generation_config.json"), "%s", error.text);
        cr_assert_not_null(strstr(error.text, CASES[i].part), "%s", error.text);
    }
}

Test(generation_defaults, a_fifo_a_link_out_and_a_giant_are_refused_at_once, .timeout = 30)
{
    char folder[] = P_tmpdir "/defaults-XXXXXX";
    char path[64];
    struct generation_defaults defaults;
    struct error error = {""};
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/generation_config.json", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_expect_eq(generation_defaults_read(folder, &defaults, &error), STATUS_CORRUPT);
    cr_expect(strstr(error.text, "generation_config.json is not a regular file"), "%s", error.text);
    unlink(path);
    cr_assert_eq(symlink("/dev/zero", path), 0);
    cr_expect_eq(generation_defaults_read(folder, &defaults, &error), STATUS_CORRUPT);
    cr_expect(strstr(error.text, "generation_config.json is a link"), "%s", error.text);
    unlink(path);
    cr_assert_eq(truncate((fclose(fopen(path, "w")), path), 5 << 20), 0);
    cr_expect_eq(generation_defaults_read(folder, &defaults, &error), STATUS_CORRUPT);
    cr_expect(strstr(error.text, "has 5242880 bytes"), "%s", error.text);
    unlink(path);
    rmdir(folder);
}
