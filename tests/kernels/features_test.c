/* kernels/README.md lists the features as the table in attention_features.c has them; layers fall
 * into groups by their windows. KVFERRY_REWRITE_FEATURES=1 writes the list anew. */
#include "kernels/attention_backends.h"
#include "kernels/attention_features.h"
#include "kernels/cuda/attention.h"
#include "kernels/kernels.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE  KVFERRY_SOURCE_DIR "/kernels/README.md"
#define BEGIN "<!-- features: begin, tests/kernels/features_test.c -->\n"
#define END   "<!-- features: end -->\n"

enum { TEXT_MAX = 1 << 16 };

static void append(char *text, const char *more)
{
    size_t n = strlen(text);
    cr_assert_lt(n + strlen(more), TEXT_MAX);
    snprintf(text + n, TEXT_MAX - n, "%s", more);
}

enum { COLUMNS = 3 };

/* The columns: sets of one back end that run anywhere, and the device's, which no host lists. */
static const struct attention_backend *column(uint32_t index)
{
    static const char *const names[] = {"reference", "scalar"};
    const struct attention_backend *backend;
    if (index == COLUMNS - 1)
        return &cuda_attention;
    cr_assert_eq(attention_backend_select(names[index], NULL, &backend, NULL), STATUS_OK);
    return backend;
}

static void append_features(char *text)
{
    char row[512];
    snprintf(row, sizeof row, "\n| # | what | asked for by | %s | %s | %s | shown by |\n",
             column(0)->name, column(1)->name, column(2)->name);
    append(text, row);
    append(text, "|---|---|---|---|---|---|---|\n");
    for (uint32_t number = 1; number <= ATTENTION_FEATURES; number++) {
        const struct attention_feature *feature = attention_feature(number);
        snprintf(row, sizeof row, "| %s | %s | %s |", feature->id, feature->name, feature->fields);
        append(text, row);
        for (uint32_t c = 0; c < COLUMNS; c++)
            append(text, column(c)->features & ATTENTION_FEATURE(number) ? " yes |" : " no |");
        snprintf(row, sizeof row, " %s |\n", feature->test);
        append(text, row);
    }
}

static void append_exclusions(char *text)
{
    char row[512];
    const struct attention_exclusion *exclusions;
    uint32_t n = attention_exclusions(&exclusions);
    append(text, "\n| refused together | because |\n|---|---|\n");
    for (uint32_t i = 0; i < n; i++) {
        snprintf(row, sizeof row, "| %s, %s | %s |\n", attention_feature(exclusions[i].first)->id,
                 attention_feature(exclusions[i].second)->id, exclusions[i].reason);
        append(text, row);
    }
    append(text, "\n");
}

static void read_page(char *text)
{
    FILE *file = fopen(PAGE, "r");
    cr_assert_not_null(file);
    text[fread(text, 1, TEXT_MAX - 1, file)] = '\0';
    fclose(file);
}

Test(features, the_page_has_the_table)
{
    static char page[TEXT_MAX], expected[TEXT_MAX];
    read_page(page);
    char *begin = strstr(page, BEGIN), *end = strstr(page, END);
    cr_assert(begin && end && begin < end, "the two marker lines");
    memcpy(expected, page, (size_t)(begin - page) + strlen(BEGIN));
    append_features(expected);
    append_exclusions(expected);
    append(expected, end);
    if (getenv("KVFERRY_REWRITE_FEATURES")) {
        FILE *file = fopen(PAGE, "w");
        cr_assert_not_null(file);
        fputs(expected, file);
        cr_assert_eq(fclose(file), 0);
        return;
    }
    cr_assert(strcmp(page, expected) == 0,
              "kernels/README.md differs from attention_features.c: run test_kernels with "
              "KVFERRY_REWRITE_FEATURES=1");
}

Test(features, the_test_of_each_feature_is_there)
{
    for (uint32_t number = 1; number <= ATTENTION_FEATURES; number++) {
        char path[512];
        snprintf(path, sizeof path, "%s/tests/kernels/%s", KVFERRY_SOURCE_DIR,
                 attention_feature(number)->test);
        FILE *file = fopen(path, "r");
        cr_assert_not_null(file, "%s: %s", attention_feature(number)->id, path);
        fclose(file);
    }
}

Test(features, of_every_call_are_never_used)
{
    static const float weights[8] = {0};
    struct attention_config all = {.n_heads = 1,
                                   .n_kv_heads = 1,
                                   .head_dim = 8,
                                   .compute = DTYPE_F16,
                                   .cache = DTYPE_INT8,
                                   .output_scale = 1,
                                   .soft_cap = 1,
                                   .bias = {1, weights, 1, 1, weights, 4, 4, false},
                                   .sinks = weights,
                                   .mask = MASK_BIDIRECTIONAL,
                                   .window = 8,
                                   .keys = KEYS_SHARD,
                                   .n_beams_max = 2,
                                   .n_draft_max = 2,
                                   .qkv_bias = weights,
                                   .q_norm = weights,
                                   .reuses_prefix = true,
                                   .path = PATH_SHORT,
                                   .math = MATH_FP8,
                                   .multi_block = CHOICE_ON,
                                   .grouped = CHOICE_ON};
    uint64_t used = attention_features_used(&all);
    cr_assert_eq(used & ATTENTION_FEATURES_OF_CALLS, 0);
    cr_assert_eq(__builtin_popcountll(used), 20);
    cr_assert_eq(attention_features_used(&(struct attention_config){.path = PATH_FLASH}), 0);
}

Test(features, every_back_end_computes_those_of_every_call_and_no_unknown_one)
{
    const struct attention_backend *backend;
    for (uint32_t i = 0; attention_backend_name(i); i++)
        if (attention_backend_select(attention_backend_name(i), NULL, &backend, NULL) ==
            STATUS_OK) {
            cr_assert_eq(ATTENTION_FEATURES_OF_CALLS & ~backend->features, 0, "%s", backend->name);
            cr_assert_eq(backend->features & ~ATTENTION_FEATURES_ALL, 0, "%s", backend->name);
        }
    cr_assert_eq(__builtin_popcountll(ATTENTION_FEATURES_ALL), ATTENTION_FEATURES);
}

/* The README's columns are by name: each back end of a name has the same. */
Test(features, back_ends_of_one_name_compute_the_same)
{
    const struct attention_backend *backend;
    for (uint32_t i = 0; attention_backend_name(i); i++)
        if (attention_backend_select(attention_backend_name(i), NULL, &backend, NULL) == STATUS_OK)
            for (uint32_t c = 0; c < COLUMNS; c++)
                if (strcmp(backend->name, column(c)->name) == 0)
                    cr_assert_eq(backend->features, column(c)->features, "%s",
                                 attention_backend_name(i));
}

Test(features, windows_are_repeated_and_equal_ones_form_a_group)
{
    static const uint32_t windows[] = {512, 512, 0};
    uint32_t layer_windows[8], layer_groups[8];
    cr_assert_eq(attention_layer_groups(windows, 3, 8, layer_windows, layer_groups), 2);
    for (uint32_t layer = 0; layer < 8; layer++) {
        cr_assert_eq(layer_windows[layer], windows[layer % 3]);
        cr_assert_eq(layer_groups[layer], layer % 3 == 2);
    }
    cr_assert_eq(attention_layer_groups(windows, 1, 8, layer_windows, layer_groups), 1);
    cr_assert_eq(attention_layer_groups(windows, 3, 2, layer_windows, layer_groups), 1);
    static const uint32_t three[] = {0, 7, 0, 9, 7};
    cr_assert_eq(attention_layer_groups(three, 5, 7, layer_windows, layer_groups), 3);
    cr_assert_arr_eq(layer_groups, ((uint32_t[]){0, 1, 0, 2, 1, 0, 1}), 7 * sizeof(uint32_t));
}

Test(features, a_back_end_is_found_by_the_name_of_its_kernels)
{
    const struct kernels *list[KERNELS_MAX];
    const struct attention_backend *found;
    struct error error = {""};
    uint32_t n = kernels_list(list, KERNELS_MAX), n_found = 0;
    for (uint32_t k = 0; k < n; k++)
        if (attention_backend_select(list[k]->name, list[k], &found, NULL) == STATUS_OK) {
            cr_assert_eq(found, list[k]->attention, "%s", list[k]->name);
            n_found++;
        }
    cr_assert_geq(n_found, 2, "reference and scalar run anywhere");
    unsetenv("KVFERRY_ATTENTION");
    cr_assert_eq(attention_backend_select(NULL, list[n - 1], &found, NULL), STATUS_OK);
    cr_assert_eq(found, list[n - 1]->attention, "that of the kernels");
    setenv("KVFERRY_ATTENTION", "reference", 1);
    cr_assert_eq(attention_backend_select(NULL, list[n - 1], &found, NULL), STATUS_OK);
    cr_assert_eq(found, list[0]->attention);
    cr_assert_eq(attention_backend_select("none", list[0], &found, &error),
                 STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(error.text, "'none'"), "%s", error.text);
}

/* In the order of the sentence that lists them. */
static const char *const SETS[] = {
    "reference",   "scalar",      "sse2", "avx2",     "avx2_vnni", "avx512",  "avx512_vnni",
    "avx512_bf16", "avx512_fp16", "amx",  "amx_bf16", "neon",      "neon_dot"};

static bool runs_here(const char *name)
{
    const struct kernels *list[KERNELS_MAX];
    uint32_t n = kernels_list(list, KERNELS_MAX);
    for (uint32_t k = 0; k < n; k++)
        if (strcmp(list[k]->name, name) == 0)
            return true;
    return false;
}

Test(features, a_set_that_is_unknown_or_that_this_machine_lacks_is_named_with_its_variable)
{
    const struct kernels *kernels;
    struct error unknown = {""}, error = {""};
    char part[64];
    cr_assert_eq(kernels_select("quantum", &kernels, &unknown), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(unknown.text, "'quantum' (cpu_kernels, KVFERRY_CPU)"), "%s", unknown.text);
    for (size_t i = 0; i < sizeof SETS / sizeof SETS[0]; i++) {
        cr_assert(strstr(unknown.text, SETS[i]), "%s: %s", SETS[i], unknown.text);
        enum status status = kernels_select(SETS[i], &kernels, &error);
        cr_assert_eq(status, runs_here(SETS[i]) ? STATUS_OK : STATUS_UNSUPPORTED, "%s", SETS[i]);
        snprintf(part, sizeof part, "cannot run the kernels '%s' (cpu_kernels, KVFERRY_CPU)",
                 SETS[i]);
        cr_assert(status == STATUS_OK || strstr(error.text, part), "%s", error.text);
    }
}
