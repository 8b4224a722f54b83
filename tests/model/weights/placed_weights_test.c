/* placed_weights: a model that was copied to a device computes the host's bits without its files; slices of tensors in every dtype. */
#include "kernels/quantize.h"
#include "model/weights/placed_weights.h"
#include "tests/device/fault_device.h"
#include "tests/model/support/runner.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(placed_weights, .description = ONE_THREAD);

enum { N_PROMPT = 24, SEEDS = 4 };

/* ---- whole models ---- */

static const char *const FOLDERS[] = {DEMO_MODEL, GOLDEN_MODELS "/qwen3_t4"};

static uint32_t n_mapped_files(void)
{
    char line[4096];
    uint32_t n = 0;
    FILE *maps = fopen("/proc/self/maps", "re");
    cr_assert(maps);
    while (fgets(line, sizeof line, maps))
        n += strstr(line, ".safetensors") != NULL;
    fclose(maps);
    return n;
}

/* Of a prompt and one token behind it; the caller frees. */
static float *compute(const char *folder, enum weight_format format, struct device *device,
                      size_t *bytes_out)
{
    struct runner runner;
    struct runner_sequence sequence;
    uint32_t ids[N_PROMPT];
    runner_open(&runner, folder,
                (struct runner_options){.tokens_max = 64, .weights = format, .device = device});
    float *logits = calloc(2 * (size_t)runner.vocabulary, sizeof *logits);
    for (uint32_t i = 0; i < N_PROMPT; i++)
        ids[i] = (i * 131 + 7) % runner.vocabulary;
    cr_assert_eq(n_mapped_files() > 0, device == NULL, "%u files are mapped", n_mapped_files());
    cr_expect_eq(model_mapped_bytes(runner.model) > 0, device == NULL);
    uint64_t placed = device_bytes(runner.device, DEVICE_WEIGHTS);
    cr_expect_eq(placed, device ? model_weight_bytes(runner.model) : 0, "%lu of %lu",
                 (unsigned long)placed, (unsigned long)model_weight_bytes(runner.model));
    runner_begin(&runner, &sequence, N_PROMPT + 1);
    runner_prefill(&runner, &sequence, ids, N_PROMPT, 16, logits);
    runner_decode(&runner, &sequence, 5, logits + runner.vocabulary);
    runner_end(&runner, &sequence);
    *bytes_out = 2 * (size_t)runner.vocabulary * sizeof *logits;
    runner_close(&runner);
    return logits;
}

static void check_bits(const char *folder, enum weight_format format)
{
    size_t bytes;
    float *expected = compute(folder, format, NULL, &bytes);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct device *device = fault_device_open(&(struct fault_options){
            .seed = seed, .steps_max = 2, .computes_at_once = true, .views_max = seed % 3});
        float *logits = compute(folder, format, device, &bytes);
        cr_expect_eq(memcmp(logits, expected, bytes), 0, "%s, format %d, seed %lu", folder,
                     (int)format, (unsigned long)seed);
        cr_expect_eq(device_bytes(device, DEVICE_WEIGHTS), 0);
        device_close(device);
        free(logits);
    }
    free(expected);
}

Test(placed_weights, a_copied_model_has_the_hosts_bits_and_no_file)
{
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++)
        check_bits(FOLDERS[i], WEIGHTS_AUTO);
}

Test(placed_weights, so_has_one_that_was_quantised)
{
    check_bits(DEMO_MODEL, WEIGHTS_INT8);
    check_bits(DEMO_MODEL, WEIGHTS_INT8_GROUP32);
}

struct shown {
    uint64_t done, all;
    uint32_t n;
};

static void show(void *arg, uint64_t done, uint64_t all)
{
    struct shown *shown = arg;
    cr_expect(done >= shown->done && done <= all, "%lu behind %lu of %lu", (unsigned long)done,
              (unsigned long)shown->done, (unsigned long)all);
    *shown = (struct shown){done, all, shown->n + 1};
}

Test(placed_weights, loading_shows_its_progress_to_the_end)
{
    static const enum weight_format FORMATS[] = {WEIGHTS_AUTO, WEIGHTS_INT8};
    uint64_t all_host = 0;
    uint32_t n_host = 0;
    for (int i = 0; i < 4; i++) {
        struct shown shown = {0};
        struct error error = {""};
        struct model *model;
        struct device *device = fault_device_open(&(struct fault_options){.steps_max = 2});
        const struct model_options options = {.weights = FORMATS[i / 2],
                                              .device = i % 2 ? device : NULL,
                                              .on_progress = show,
                                              .arg = &shown};
        cr_assert_eq(model_load(DEMO_MODEL, &options, &error, &model), STATUS_OK, "%s", error.text);
        if (i % 2) /* copies are part of it */
            cr_expect(shown.all > all_host && shown.n > n_host, "%u steps", shown.n);
        n_host = shown.n;
        all_host = shown.all;
        cr_expect(shown.n > 0 && shown.done == shown.all, "%lu of %lu", (unsigned long)shown.done,
                  (unsigned long)shown.all);
        model_destroy(model);
        device_close(device);
    }
}

Test(placed_weights, whichever_call_fails_the_load_says_so)
{
    for (uint64_t n = 1, is_lost = 1; is_lost; n += n < 20 ? 1 : 37) {
        struct error error = {""};
        struct model *model = NULL;
        struct device *device = fault_device_open(
            &(struct fault_options){.steps_max = 2, .fails_at = n});
        enum status status = model_load(GOLDEN_MODELS "/llama_t4",
                                        &(struct model_options){.device = device}, &error, &model);
        is_lost = device_is_lost(device);
        cr_expect_eq(status, is_lost ? STATUS_DEVICE_LOST : STATUS_OK, "call %lu",
                     (unsigned long)n);
        cr_expect(!is_lost || strstr(error.text, "weights"), "%s", error.text);
        cr_assert(is_lost || n > 20, "a load has more calls than that");
        model_destroy(model);
        cr_expect_eq(device_bytes(device, DEVICE_WEIGHTS), 0);
        device_close(device);
    }
}

/* ---- slices of a tensor ---- */

enum { N_OUT = 6, N_IN = 96, GROUP = 32 };

static struct device *slicing_device(bool is_host)
{
    struct device *device;
    struct error error = {""};
    if (!is_host)
        return fault_device_open(&(struct fault_options){.seed = 3, .steps_max = 2});
    cr_assert_eq(device_open("cpu", &device, &error), STATUS_OK, "%s", error.text);
    return device;
}

/* What weight (o, i) counts, whatever its dtype. */
static float weight_at(const struct tensor *tensor, uint32_t o, uint32_t i)
{
    float row[N_IN];
    const struct gemm gemm = {.w = tensor->data,
                              .w_dtype = tensor->dtype,
                              .w_scales = tensor->scales,
                              .w_scale_rows = 1,
                              .w_scale_columns = tensor->scale_columns,
                              .n_in = tensor->n_in,
                              .n_out = tensor->n_out};
    dequantize_row(&gemm, o, row);
    return row[i] * dequantize_scale(&gemm, o, i);
}

static void check_slice(const struct tensor *tensor, const struct device_slice *slice, bool is_host)
{
    struct device *device = slicing_device(is_host);
    struct device_memory memories[PLACED_MEMORIES];
    struct tensor placed;
    struct error error = {""};
    cr_assert_eq(tensor_place(device, tensor, slice, &error, &placed, memories), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(device_wait(device, device_record(device, DEVICE_COPY)), STATUS_OK);
    cr_expect(placed.n_out == slice->n_rows && placed.n_in == slice->n_columns);
    for (uint32_t o = 0; o < placed.n_out; o++)
        for (uint32_t i = 0; i < placed.n_in; i++)
            cr_assert_eq(weight_at(&placed, o, i),
                         weight_at(tensor, (uint32_t)slice->first_row + o,
                                   (uint32_t)slice->first_column + i),
                         "%s (%u, %u)", dtype_name(tensor->dtype), o, i);
    for (int i = 0; i < PLACED_MEMORIES; i++)
        device_free(device, &memories[i]);
    device_close(device);
}

static const struct device_slice SLICES[] = {
    {0, N_OUT, 0, N_IN}, {2, 3, 0, N_IN}, {0, N_OUT, GROUP, GROUP}, {1, 4, GROUP, 2 * GROUP}};

static void check_slices(const struct tensor *tensor)
{
    for (size_t i = 0; i < sizeof SLICES / sizeof *SLICES; i++)
        for (int is_host = 0; is_host < 2; is_host++)
            check_slice(tensor, &SLICES[i], is_host);
}

Test(placed_weights, slices_of_every_dtype_that_files_have)
{
    static const enum dtype DTYPES[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16};
    for (int d = 0; d < 3; d++) {
        size_t bytes = dtype_bytes(DTYPES[d]);
        uint8_t *data = malloc(N_OUT * N_IN * bytes + 1);
        cr_assert(data);
        for (uint32_t i = 0; i < N_OUT * N_IN; i++)
            dtype_store(DTYPES[d], data + 1, i, (float)(i % 251) - 100.0f);
        check_slices(
            &(struct tensor){.data = data + 1, .dtype = DTYPES[d], .n_out = N_OUT, .n_in = N_IN});
        free(data);
    }
}

static struct tensor new_int8(enum quantize_format format, struct quantized *counts)
{
    float source[N_OUT * N_IN];
    struct error error = {""};
    for (int i = 0; i < N_OUT * N_IN; i++)
        source[i] = (float)((i * 37) % 101 - 50) * (float)(1 + i / GROUP);
    cr_assert_eq(quantized_init(format, N_OUT, N_IN, counts, &error), STATUS_OK);
    counts->w = malloc(quantized_w_bytes(counts));
    counts->scales = malloc(quantized_scales_bytes(counts));
    quantize(NULL, counts, DTYPE_F32, source);
    return (struct tensor){.data = counts->w,
                           .dtype = counts->dtype,
                           .n_out = N_OUT,
                           .n_in = N_IN,
                           .scales = counts->scales,
                           .scale_columns = counts->scale_columns};
}

Test(placed_weights, scales_go_with_their_rows_and_groups)
{
    static const enum quantize_format FORMATS[] = {QUANTIZE_INT8_ROWS, QUANTIZE_INT8_GROUPS};
    for (int f = 0; f < 2; f++) {
        struct quantized counts;
        struct tensor tensor = new_int8(FORMATS[f], &counts);
        check_slices(&tensor);
        free(counts.w);
        free(counts.scales);
    }
}

Test(placed_weights, what_has_one_scale_or_is_packed_is_not_divided)
{
    static const struct device_slice DIVIDED[] = {{0, N_OUT, 16, 32}, {0, N_OUT, 0, 40}};
    struct quantized counts;
    struct tensor tensor = new_int8(QUANTIZE_INT8_GROUPS, &counts), placed;
    struct device_memory memories[PLACED_MEMORIES];
    struct device *device = slicing_device(false);
    struct error error = {""};
    for (int i = 0; i < 2; i++) {
        cr_expect_eq(tensor_place(device, &tensor, &DIVIDED[i], &error, &placed, memories),
                     STATUS_INVALID_ARGUMENT);
        cr_expect(strstr(error.text, "divides a group of 32 with one scale"), "%s", error.text);
    }
    const struct device_slice beyond = {0, N_OUT + 1, 0, N_IN};
    cr_expect_eq(tensor_place(device, &tensor, &beyond, &error, &placed, memories),
                 STATUS_INVALID_ARGUMENT);
    const struct tensor packed = {.data = counts.w,
                                  .dtype = DTYPE_INT8,
                                  .n_out = N_OUT,
                                  .n_in = N_IN,
                                  .is_packed = true,
                                  .packed_bytes = N_OUT * N_IN};
    cr_expect_eq(tensor_place(device, &packed, &SLICES[1], &error, &placed, memories),
                 STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, "packed"), "%s", error.text);
    cr_expect_eq(device_bytes(device, DEVICE_WEIGHTS), 0);
    device_close(device);
    free(counts.w);
    free(counts.scales);
}
