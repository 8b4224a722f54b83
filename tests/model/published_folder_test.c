/* Folders edited as published ones differ: each loads with Transformers' logits and ends of text, or is
 * refused by a sentence that names the key. tests/golden/folders/make.py has the table. */
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/golden.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GOLDEN_FOLDERS KVFERRY_SOURCE_DIR "/tests/golden/folders"
#define TOLERANCE      1e-4
#define CASES_MIN      60

static void edit_with(const struct broken_folder *folder, enum broken_what what, const char *name,
                      const char *value)
{
    char *argument = NULL;
    cr_assert_geq(asprintf(&argument, "%s=%s", name, value), 0);
    broken_folder_edit(folder, what, argument);
    free(argument);
}

/* The folder of NAME becomes CACHE/blobs, and folder CACHE/snapshots/0123abcd. */
static void move_into_hub(struct broken_folder *cache, struct broken_folder *folder)
{
    char path[512], blobs[512];
    broken_folder_make(cache, GOLDEN_FOLDERS, NOTHING, ""); /* its own files do not matter */
    snprintf(path, sizeof path, "%s/snapshots", cache->path);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/snapshots/0123abcd", cache->path);
    cr_assert_eq(mkdir(path, 0700), 0);
    snprintf(blobs, sizeof blobs, "%s/blobs", cache->path);
    cr_assert_eq(rename(folder->path, blobs), 0);
    snprintf(folder->path, sizeof folder->path, "%.255s", path);
    struct broken_folder own = {""};
    snprintf(own.path, sizeof own.path, "%.255s", blobs);
    broken_folder_link_all(&own, folder->path, "../../blobs");
}

static void apply(const json_t *row, struct broken_folder *folder)
{
    const char *name;
    char path[512], original[512];
    json_t *value;
    size_t i;
    snprintf(original, sizeof original, "%s/%s", GOLDEN_MODELS,
             json_string_value(json_object_get(row, "base")));
    broken_folder_make(folder, original, NOTHING, "");
    if (json_object_get(row, "strip"))
        broken_folder_edit(folder, TENSOR_STRIP, json_string_value(json_object_get(row, "strip")));
    const json_t *shards = json_object_get(row, "shards");
    if (shards) {
        snprintf(path, sizeof path, "%d", (int)json_integer_value(shards));
        broken_folder_edit(folder, SHARDS, path);
    }
    json_array_foreach(json_object_get(row, "delete"), i, value)
        broken_folder_edit(folder, FILE_REMOVE, json_string_value(value));
    json_array_foreach(json_object_get(row, "folders"), i, value)
    {
        snprintf(path, sizeof path, "%s/%s", folder->path, json_string_value(value));
        cr_assert_eq(mkdir(path, 0700), 0);
    }
    json_object_foreach(json_object_get(row, "write"), name, value)
        edit_with(folder, FILE_TEXT, name, json_string_value(value));
    json_object_foreach(json_object_get(row, "link"), name, value)
        edit_with(folder, FILE_LINK, name, json_string_value(value));
}

static void check_refused(const char *name, const char *folder, const char *part)
{
    struct error error = {""};
    struct model *model = NULL;
    enum status status = model_load(folder, NULL, &error, &model);
    cr_expect_neq(status, STATUS_OK, "%s loads", name);
    cr_expect(strstr(error.text, part), "%s: no \"%s\" in \"%s\"", name, part, error.text);
    if (status == STATUS_OK)
        model_destroy(model);
}

static int by_number(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static void check_eos(const char *name, const struct model_config *config, const json_t *expected)
{
    uint32_t ids[EOS_IDS_MAX];
    memcpy(ids, config->eos_ids, sizeof ids);
    qsort(ids, config->n_eos_ids, sizeof *ids, by_number);
    cr_expect_eq(config->n_eos_ids, json_array_size(expected), "%s: %u ids", name,
                 config->n_eos_ids);
    for (uint32_t i = 0; i < config->n_eos_ids; i++)
        cr_expect_eq(ids[i], json_integer_value(json_array_get(expected, i)), "%s", name);
}

static double check_loads(const json_t *row, const char *name, const char *folder,
                          const json_t *prompt)
{
    struct runner runner;
    struct runner_sequence sequence;
    uint32_t n;
    uint32_t *ids = golden_ids(prompt, &n);
    const json_t *expected = json_object_get(row, "logits");
    struct error error = {""};
    struct model *model = NULL;
    enum status status = model_load(folder, NULL, &error, &model);
    cr_expect_eq(status, STATUS_OK, "%s: %s", name, error.text);
    if (status != STATUS_OK)
        return 0;
    check_eos(name, model_get_config(model), json_object_get(row, "eos"));
    model_destroy(model);

    runner_open(&runner, folder, (struct runner_options){.block_tokens = 8, .tokens_max = 80});
    float *logits = calloc(runner.vocabulary, sizeof *logits);
    cr_assert_eq(json_array_size(expected), runner.vocabulary, "%s", name);
    runner_begin(&runner, &sequence, n);
    runner_prefill(&runner, &sequence, ids, n, 0, logits);
    double largest = 0;
    for (uint32_t i = 0; i < runner.vocabulary; i++) {
        float wanted = (float)json_number_value(json_array_get(expected, i));
        double difference = golden_error(&logits[i], &wanted, 1);
        largest = difference > largest ? difference : largest;
    }
    cr_expect_leq(largest, TOLERANCE, "%s: %g", name, largest);
    runner_end(&runner, &sequence);
    free(logits);
    free(ids);
    runner_close(&runner);
    return largest;
}

Test(published_folder, loads_with_transformers_result_or_is_refused_by_name, .timeout = 300)
{
    json_t *golden = golden_json(GOLDEN_FOLDERS, "cases.json"), *row;
    size_t i, n_loaded = 0;
    double largest = 0;
    json_array_foreach(json_object_get(golden, "cases"), i, row)
    {
        const char *name = json_string_value(json_object_get(row, "name"));
        const char *refused = json_string_value(json_object_get(row, "refused"));
        bool is_hub = json_object_get(row, "hub");
        struct broken_folder folder, cache;
        apply(row, &folder);
        if (is_hub)
            move_into_hub(&cache, &folder);
        if (refused) {
            check_refused(name, folder.path, refused);
        } else {
            double difference = check_loads(row, name, folder.path,
                                            json_object_get(golden, "prompt"));
            largest = difference > largest ? difference : largest;
            n_loaded++;
        }
        broken_folder_remove(is_hub ? &cache : &folder);
    }
    printf("%zu folders, %zu load, largest error %.1e\n", i, n_loaded, largest);
    cr_assert_geq(i, CASES_MIN);
    cr_assert_geq(n_loaded, CASES_MIN / 2);
    json_decref(golden);
}
