/* The scales of an INT8 or E4M3 cache: a text goes through the model with K and V in float32, and the largest magnitudes of each
 * layer are kept. */
#include "base/regular_file.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/eval/eval_model.h"
#include "cli/eval/eval_text.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "device/device.h"
#include "model/config/kv_layers.h"
#include "model/model.h"
#include "model/weights/kv_scales.h"
#include "tokenizer/tokenizer.h"
#include "worker_common/worker_kv_scales.h"

#include <errno.h>
#include <libgen.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES_MAX 4096

#define CALIBRATE_CONFIG(X)                                                                        \
    X(text, STRING, "", "path", "file with a text like those that will be served, in UTF-8")       \
    X(out, STRING, "", "path",                                                                     \
      "file to write; empty: kv_scales.safetensors beside the model, where workers look for it")   \
    X(window_tokens, U32(8, 1048576), "512", "tokens", "tokens of a window")                       \
    X(tokens_max, U64(0, CONFIG_NO_MAX), "0", "tokens", "most tokens of the text; 0: all")         \
    WEIGHTS_CONFIG_ROW(X)                                                                          \
    X(threads, U32(0, 256), "0", "threads", "compute threads; 0: one per core")                    \
    KERNELS_CONFIG_ROWS(X)

CONFIG_DECLARE(calibrate_config, CALIBRATE_CONFIG);
CONFIG_DEFINE(calibrate_config, CALIBRATE_CONFIG, CONFIG_NO_ALIASES)

struct calibration {
    const char *folder;
    const struct calibrate_config *values;
    struct error *error;
    struct thread_pool *threads;
    struct device *device;
    struct eval_text text;
    struct eval_model *model;
    struct kv_scales scales;
    uint32_t *window; /* [window_tokens] */
};

static enum status open_all(struct calibration *run)
{
    const struct calibrate_config *values = run->values;
    const struct eval_model_options options = {.weights = values->weights,
                                               .kv_dtype = WORKER_KV_F32,
                                               .kv_scales = "",
                                               .cpu_kernels = values->cpu_kernels,
                                               .attention_kernels = values->attention_kernels,
                                               .window_tokens = values->window_tokens,
                                               .takes_encoder = true};
    TRY(eval_text_read(run->folder, values->text, values->tokens_max, run->error, &run->text));
    TRY(eval_device_open(run->folder, "cpu", &options, &run->device, run->error));
    TRY(thread_pool_create(values->threads, false, &run->threads));
    TRY(eval_model_open(run->folder, &options, run->threads, run->device, run->error, &run->model));
    TRY(eval_text_fits(&run->text, eval_model_vocabulary(run->model), run->error));
    TRY(kv_scales_alike(kv_layers_count(model_get_config(eval_model_get(run->model))), 0,
                        &run->scales));
    run->window = calloc(values->window_tokens, sizeof *run->window);
    return run->window ? STATUS_OK : STATUS_NO_MEMORY;
}

static void close_all(struct calibration *run)
{
    eval_model_close(run->model);
    thread_pool_destroy(run->threads);
    device_close(run->device);
    eval_text_finish(&run->text);
    kv_scales_finish(&run->scales);
    free(run->window);
}

static enum status run_window(struct calibration *run, uint32_t n)
{
    for (uint32_t at = 0; at < n; at += EVAL_CHUNK_TOKENS) {
        const uint32_t n_chunk = n - at < EVAL_CHUNK_TOKENS ? n - at : EVAL_CHUNK_TOKENS;
        TRY(eval_model_run(run->model, run->window, n, at, n_chunk));
    }
    eval_model_take_largest(run->model, n, run->scales.largest);
    return STATUS_OK;
}

static enum status run_windows(struct calibration *run)
{
    const struct eval_text *text = &run->text;
    for (size_t at = 0, n; at < text->n_ids; at += n) {
        n = eval_text_window(text, at, run->values->window_tokens, run->window);
        TRY(run_window(run, (uint32_t)n + (text->bos != TOKEN_NONE)));
    }
    return STATUS_OK;
}

/* A cache cannot be made for a layer whose K or V is zero or not finite. */
static enum status check_largest(struct calibration *run)
{
    for (uint32_t i = 0; i < 2 * run->scales.n_layers; i++) {
        const double largest = run->scales.largest[i];
        if (!isfinite(largest) || largest <= 0)
            return error_set(
                run->error, STATUS_UNSUPPORTED,
                "the largest magnitude of %s in layer %u is %g: no scale can be made of "
                "it",
                i % 2 == KV_PART_K ? "K" : "V", i / 2, largest);
    }
    return STATUS_OK;
}

static void print_range(const struct calibration *run, enum kv_part part)
{
    double least = INFINITY, most = 0;
    for (uint32_t layer = 0; layer < run->scales.n_layers; layer++) {
        const double largest = run->scales.largest[2 * layer + part];
        least = largest < least ? largest : least;
        most = largest > most ? largest : most;
    }
    printf("%s               up to %.4g to %.4g in the layers\n", part == KV_PART_K ? "K" : "V",
           least, most);
}

/* Before the work, not behind it. */
static enum status check_place(const char *path, struct error *error)
{
    char copy[PATH_BYTES_MAX];
    TRY(regular_file_check_place(path, error));
    snprintf(copy, sizeof copy, "%s", path);
    if (access(dirname(copy), W_OK | X_OK) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_IO_FAILED, "%.200s cannot be written: %s", path,
                     strerror(errno));
}

static enum status calibrate(struct calibration *run)
{
    char beside[PATH_BYTES_MAX];
    const char *path = run->values->out;
    if (!path[0] && !worker_kv_scales_path(run->folder, beside, sizeof beside))
        return error_set(run->error, STATUS_INVALID_ARGUMENT, "the path of the model is too long");
    path = path[0] ? path : beside;
    TRY(check_place(path, run->error));
    TRY(open_all(run));
    TRY(run_windows(run));
    TRY(check_largest(run));
    TRY(kv_scales_write(path, &run->scales, run->error));
    printf("tokens          %zu\n", run->text.n_ids);
    print_range(run, KV_PART_K);
    print_range(run, KV_PART_V);
    printf("written         %s\n", path);
    return STATUS_OK;
}

int calibrate_main(const struct config_input *input)
{
    struct calibrate_config values;
    struct config *config;
    int exit_status;
    if (command_configure(calibrate_config_table(), input, &values, &config, &exit_status))
        return exit_status;
    interrupt_ends();
    output_begin();
    struct error error = {""};
    struct calibration run = {
        .folder = config_positional(config, 0), .values = &values, .error = &error};
    enum status status = calibrate(&run);
    close_all(&run);
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s: %s\n", input->command, status_name(status),
                error.text[0] ? error.text : status_text(status));
    config_destroy(config);
    return output_end(input->command, status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE);
}
