/* model: what loads is counted, digested and reported on the way. */
#include "model/weights.h"
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

struct progress {
    uint64_t done, all;
    uint32_t n_calls;
};

static void on_progress(void *arg, uint64_t bytes_done, uint64_t bytes_all)
{
    struct progress *progress = arg;
    cr_assert(bytes_done >= progress->done && bytes_done <= bytes_all);
    *progress = (struct progress){bytes_done, bytes_all, progress->n_calls + 1};
}

static struct model *load(const char *folder)
{
    struct model *model;
    struct error error;
    cr_assert_eq(model_load(folder, NULL, &error, &model), STATUS_OK, "%s", error.text);
    return model;
}

Test(model, demo_counts_and_progress)
{
    struct progress progress = {0, 0, 0};
    struct model_options options = {.on_progress = on_progress, .arg = &progress};
    struct model *model;
    struct error error;
    cr_assert_eq(model_load(DEMO_MODEL, &options, &error, &model), STATUS_OK, "%s", error.text);
    cr_assert_eq(model_parameters(model), 3312384);
    cr_assert_eq(model_weight_bytes(model), 2 * 3312384);
    cr_assert_eq(progress.done, progress.all);
    cr_assert_eq(progress.all, 6629824);
    cr_assert_geq(progress.n_calls, 2);
    cr_assert_eq(model_get_config(model)->n_eos_ids, 1);
    cr_assert_eq(model_get_config(model)->eos_ids[0], 2047);
    cr_assert_eq(model_weights(model)->head.data, model_weights(model)->embedding.data);
    model_destroy(model);
}

static void digest_of(const char *original, enum broken_what what, const char *argument,
                      uint64_t digest_out[2])
{
    struct broken_folder folder;
    broken_folder_make(&folder, original, what, argument);
    struct model *model = load(folder.path);
    model_digest(model, digest_out);
    model_destroy(model);
    broken_folder_remove(&folder);
}

Test(model, names_the_type_of_its_weights)
{
    static const struct {
        const char *name;
        enum dtype dtype;
    } rows[] = {
        {"llama_t4_bare", DTYPE_F32}, {"llama_t4", DTYPE_BF16}, {"llama_t4_linear", DTYPE_F16}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char folder[512];
        snprintf(folder, sizeof folder, KVFERRY_SOURCE_DIR "/tests/golden/models/%s", rows[i].name);
        struct model *model = load(folder);
        cr_assert_eq(model_weight_dtype(model), rows[i].dtype, "%s", rows[i].name);
        model_destroy(model);
    }
}

Test(model, digest_tells_models_apart_and_copies_not)
{
    static const char *const ONE = GOLDEN_MODELS "/llama_t4";
    static const struct {
        enum broken_what what;
        const char *argument;
        bool is_equal;
    } CASES[] = {
        {NOTHING, "", true},
        {CONFIG_SET, "{\"use_cache\": false, \"eos_token_id\": 5}", true},
        {CONFIG_SET, "{\"rope_theta\": null, \"rope_parameters\": {\"rope_theta\": 10000}}", true},
        {HEADER_SET, "{\"__metadata__\": {\"made\": \"again\"}}", true},
        {CONFIG_SET, "{\"rope_theta\": 20000}", false},
        {CONFIG_SET, "{\"rms_norm_eps\": 1e-6}", false},
        {CONFIG_SET, "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2}}", false},
        {HEADER_SET, "{\"model.norm.weight\": {\"dtype\": \"F16\"}}", false},
        {FILE_APPEND, "config.json= ", true},
    };
    uint64_t first[2], other[2];
    digest_of(ONE, NOTHING, "", first);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        digest_of(ONE, CASES[i].what, CASES[i].argument, other);
        cr_assert_eq(memcmp(first, other, sizeof first) == 0, CASES[i].is_equal, "%s",
                     CASES[i].argument);
    }
    digest_of(GOLDEN_MODELS "/qwen2_t4", NOTHING, "", other);
    cr_assert_neq(memcmp(first, other, sizeof first), 0);
}

Test(model, digest_sees_the_weights)
{
    static const char *const ONE = GOLDEN_MODELS "/llama_t4";
    struct broken_folder folder;
    char path[300];
    uint64_t first[2], other[2];
    digest_of(ONE, NOTHING, "", first);
    broken_folder_make(&folder, ONE, NOTHING, "");
    snprintf(path, sizeof path, "%s/model.safetensors", folder.path);
    FILE *file = fopen(path, "r+b");
    cr_assert(file && fseek(file, -1, SEEK_END) == 0);
    int last = fgetc(file);
    cr_assert(fseek(file, -1, SEEK_END) == 0 && fputc(last ^ 1, file) != EOF && !fclose(file));
    struct model *model = load(folder.path);
    model_digest(model, other);
    cr_assert_neq(memcmp(first, other, sizeof first), 0);
    model_destroy(model);
    broken_folder_remove(&folder);
}
