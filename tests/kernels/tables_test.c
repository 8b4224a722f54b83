/* tables of blocks: a layer reads and writes the blocks of its own table alone, and none that its window hides. */
#include "tests/kernels/support/attention_list.h"
#include "tests/kernels/support/layer.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <string.h>

enum { LEN = 90, PROMPT = 80, WINDOW = 21 };

static struct layer_rows rows, expected;

TestSuite(tables, .description = ONE_THREAD);

static const struct kind {
    const char *name;
    struct attention_config config;
} kinds[] = {
    {"plain", {0}},
    {"window", {.window = WINDOW}},
    {"window of a block", {.window = LAYER_BLOCK_TOKENS}},
    {"window of one token", {.window = 1}},
    {"grouped off", {.window = WINDOW, .grouped = CHOICE_OFF}},
    {"short", {.path = PATH_SHORT, .window = WINDOW}},
    {"unfused", {.path = PATH_UNFUSED, .window = WINDOW}},
    {"BF16", {.compute = DTYPE_BF16, .cache = DTYPE_BF16, .window = WINDOW}},
    {"INT8", {.cache = DTYPE_INT8, .k_scale = 0.02f, .v_scale = 0.02f, .window = WINDOW}},
    {"math BF16", {.cache = DTYPE_BF16, .math = MATH_BF16, .window = WINDOW}},
    {"math INT8", {.cache = DTYPE_F16, .math = MATH_INT8, .window = WINDOW}},
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static void run(const struct attention_backend *backend, struct attention_config config,
                const struct layer_run *how, struct layer_rows *rows_out)
{
    struct layer layer = layer_open(backend, config, false);
    memset(rows_out, 0, sizeof *rows_out);
    layer_run(&layer, how, rows_out);
    layer_close(&layer);
}

static void check(const struct kernels *set, const struct kind *kind, uint32_t table, bool forgets)
{
    for (uint32_t chunk = 0; chunk <= 16; chunk += 16) {
        struct layer_run how = {.len = LEN, .prompt_len = PROMPT, .chunk = chunk};
        struct attention_config config = kind->config;
        run(set->attention, config, &how, &expected);
        config.table = table;
        how.forgets = forgets;
        run(set->attention, config, &how, &rows);
        cr_assert_arr_eq(rows.output, expected.output, sizeof rows.output, "%s, %s, chunks of %u",
                         set->name, kind->name, chunk);
        cr_assert_arr_eq(rows.lse, expected.lse, sizeof rows.lse, "%s, %s, chunks of %u", set->name,
                         kind->name, chunk);
    }
}

Test(tables, a_layer_has_the_same_bits_whatever_its_table_is)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = attention_list(list);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < N_KINDS; i++)
            for (uint32_t table = 1; table < LAYER_TABLES; table++)
                check(list[k], &kinds[i], table, false);
}

Test(tables, blocks_behind_the_window_may_be_any)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = attention_list(list);
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i < N_KINDS; i++)
            if (kinds[i].config.window != 0)
                check(list[k], &kinds[i], 1, true);
}

Test(tables, a_table_that_the_step_does_not_have_is_refused)
{
    const struct kernels *list[KERNELS_MAX];
    const uint32_t n = attention_list(list);
    for (uint32_t k = 0; k < n; k++) {
        struct layer layer = layer_open(list[k]->attention, (struct attention_config){0}, false);
        struct attention_config config = layer.config;
        struct attention *attention;
        struct error error = {""};
        const uint32_t block_ids[1] = {0};
        const struct attention_sequence sequence = {.phase = PHASE_CONTEXT,
                                                    .query_len = 1,
                                                    .kv_len = 1,
                                                    .prompt_len = 1,
                                                    .block_ids = block_ids,
                                                    .n_blocks = 1};
        const struct attention_step step = {.sequences = &sequence, .n_sequences = 1};
        float row[LAYER_HEADS * LAYER_DIM * 3] = {0}, output[LAYER_HEADS * LAYER_DIM];
        config.table = 1;
        const struct attention_io io = attention_io_fused(&config, row, sizeof row / sizeof *row,
                                                          output, sizeof output / sizeof *output);
        cr_assert_eq(layer.backend->create(&config, NULL, &attention, &error), STATUS_OK);
        cr_assert_eq(layer.backend->metadata_prepare(layer.metadata, &step, &layer.kv, &error),
                     STATUS_OK, "%s", error.text);
        cr_assert_eq(layer.backend->forward(attention, layer.metadata, &io, &error),
                     STATUS_INVALID_ARGUMENT, "%s", list[k]->name);
        cr_assert_str_eq(error.text, "table is 1, n_tables is 1 in the metadata's limits");
        layer.backend->destroy(attention);
        layer_close(&layer);
    }
}
