/*
 * Windows of a text go through one model, or two at once: chunk by chunk, and of each chunk some rows at a time, so that two
 * models of any size need a few rows of logits and no files between them.
 */
#include "base/log/log.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/eval/eval_model.h"
#include "cli/eval/eval_text.h"
#include "cli/eval/eval_totals.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "device/device.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVAL_CONFIG(X)                                                                             \
    X(text, STRING, "", "path", "file with the text, in UTF-8")                                    \
    X(against, STRING, "", "path",                                                                 \
      "another model to compare with, such as the one that MODEL was made of; what rounds "        \
      "activations (attention_math, block_activations) is for MODEL alone")                        \
    X(adapter, STRING, "", "folder",                                                               \
      "LoRA adapter of MODEL, as PEFT saves it; the other model has none")                         \
    X(window_tokens, U32(8, 1048576), "512", "tokens",                                             \
      "tokens of a window; each is predicted from those before it in its window")                  \
    X(stride_tokens, U32(0, 1048576), "0", "tokens",                                               \
      "tokens from the begin of a window to that of the next; 0: windows do not overlap. Where "   \
      "they overlap, a token is predicted once, by the window that knows more before it")          \
    X(parts, U32(0, 1000), "0", "",                                                                \
      "also print the perplexity of so many parts of the windows: of the tokens at their "         \
      "beginnings, and so on to their ends; 0: none")                                              \
    X(tokens_max, U64(0, CONFIG_NO_MAX), "0", "tokens", "most tokens of the text; 0: all")         \
    WEIGHTS_CONFIG_ROW(X)                                                                          \
    X(against_weights, WORD(enum weight_format, WEIGHT_FORMAT_WORDS), "auto", "",                  \
      "the same for the other model")                                                              \
    KV_DTYPE_CONFIG_ROWS(X)                                                                        \
    X(against_kv_dtype, WORD(enum worker_kv_dtype, "auto|f32|bf16|f16"), "auto", "",               \
      "data type of K and V of the other model; auto: kv_dtype, or that of the weights if "        \
      "kv_dtype has 8 bits")                                                                       \
    ATTENTION_SWITCH_CONFIG_ROWS(X)                                                                \
    ATTENTION_WINDOW_CONFIG_ROWS(X)                                                                \
    ATTENTION_MATH_CONFIG_ROW(X)                                                                   \
    BLOCK_ACTIVATIONS_CONFIG_ROW(X)                                                                \
    X(threads, U32(0, 256), "0", "threads", "compute threads; 0: one per core")                    \
    KERNELS_CONFIG_ROWS(X)                                                                         \
    X(device, STRING, "cpu", "cpu|cuda:N|auto", "device that computes")                            \
    X(json, BOOL, "no", "", "print one JSON document instead of lines")

CONFIG_DECLARE(eval_config, EVAL_CONFIG);
CONFIG_DEFINE(eval_config, EVAL_CONFIG, CONFIG_NO_ALIASES)

/* Tokens that stand in the same part of their windows. */
struct part {
    double log_sum;
    uint64_t n;
};

struct eval {
    const char *folder;
    const struct eval_config *values;
    struct error *error;
    struct thread_pool *threads;
    struct device *device;
    struct eval_text text;
    struct eval_model *model, *reference; /* reference NULL: none */
    uint32_t vocabulary;                  /* the smaller of both */
    uint32_t *window;                     /* [window_tokens] */
    struct eval_totals totals;
    struct part *parts; /* [values->parts] */
    size_t n_bytes;     /* of the text of the tokens that were predicted */
};

/* ---- the text ---- */

static enum status read_text(struct eval *eval)
{
    const struct eval_config *values = eval->values;
    TRY(eval_text_read(eval->folder, values->text, values->tokens_max, eval->error, &eval->text));
    return values->against[0] ? eval_text_check(&eval->text, values->against, eval->error)
                              : STATUS_OK;
}

/* ---- the models ---- */

static enum status open_models(struct eval *eval)
{
    struct eval_model_options options = {.weights = eval->values->weights,
                                         .kv_dtype = eval->values->kv_dtype,
                                         .kv_scales = eval->values->kv_scales,
                                         .attention_math = eval->values->attention_math,
                                         .attention = ATTENTION_SWITCHES(eval->values),
                                         .attention_window = eval->values->attention_window,
                                         .force_window = eval->values->force_window,
                                         .sink_tokens = eval->values->sink_tokens,
                                         .block_activations = eval->values->block_activations,
                                         .cpu_kernels = eval->values->cpu_kernels,
                                         .attention_kernels = eval->values->attention_kernels,
                                         .adapter = eval->values->adapter,
                                         .window_tokens = eval->values->window_tokens};
    TRY(eval_device_open(eval->folder, eval->values->device, &options, &eval->device, eval->error));
    TRY(thread_pool_create(eval->values->threads, false, &eval->threads));
    TRY(eval_model_open(eval->folder, &options, eval->threads, eval->device, eval->error,
                        &eval->model));
    eval->vocabulary = eval_model_vocabulary(eval->model);
    if (eval->values->against[0]) {
        options.weights = eval->values->against_weights;
        options.block_activations = BLOCK_ACTIVATIONS_INT16;
        options.attention_math = CONTEXT_MATH_COMPUTE;
        options.attention = (struct attention_switches){0};
        options.kv_scales = options.adapter = "";
        if (eval->values->against_kv_dtype != WORKER_KV_AUTO)
            options.kv_dtype = eval->values->against_kv_dtype;
        else if (options.kv_dtype >= WORKER_KV_INT8)
            options.kv_dtype = WORKER_KV_AUTO;
        TRY(eval_model_open(eval->values->against, &options, eval->threads, eval->device,
                            eval->error, &eval->reference));
        const uint32_t other = eval_model_vocabulary(eval->reference);
        eval->vocabulary = other < eval->vocabulary ? other : eval->vocabulary;
        eval->totals.has_reference = true;
    }
    eval->window = calloc(eval->values->window_tokens, sizeof *eval->window);
    eval->parts = calloc(eval->values->parts + 1, sizeof *eval->parts);
    if (!eval->window || !eval->parts)
        return STATUS_NO_MEMORY;
    return eval_text_fits(&eval->text, eval->vocabulary, eval->error);
}

static void close_all(struct eval *eval)
{
    eval_model_close(eval->model);
    eval_model_close(eval->reference);
    thread_pool_destroy(eval->threads);
    device_close(eval->device);
    eval_totals_finish(&eval->totals);
    eval_text_finish(&eval->text);
    free(eval->window);
    free(eval->parts);
}

/* ---- windows ---- */

/* Some rows of a chunk, and what becomes of each. */
struct batch {
    const struct eval *eval;
    const float *logits, *reference;
    const uint32_t *next; /* [rows] the token that came */
    struct eval_pair pairs[EVAL_ROWS_MAX];
};

static void judge_row(void *arg, uint32_t row)
{
    struct batch *batch = arg;
    const uint32_t n = batch->eval->vocabulary;
    const float *logits = batch->logits + (size_t)row * eval_model_vocabulary(batch->eval->model);

    if (!batch->reference) {
        batch->pairs[row] = (struct eval_pair){.row = eval_row_of(logits, n, batch->next[row])};
        return;
    }
    const float *reference = batch->reference +
                             (size_t)row * eval_model_vocabulary(batch->eval->reference);
    batch->pairs[row] = eval_pair_of(logits, reference, n, batch->next[row]);
}

static enum status refuse_row(const struct eval *eval, bool is_reference)
{
    return error_set(eval->error, STATUS_LOGITS_NOT_FINITE,
                     "%.200s computes logits that are not finite",
                     is_reference ? eval->values->against : eval->folder);
}

static enum status add_pair(struct eval *eval, const struct eval_pair *pair, uint32_t token)
{
    size_t n_bytes;

    if (!pair->row.is_finite || (eval->reference && !pair->reference.is_finite))
        return refuse_row(eval, pair->row.is_finite);
    if (token < tokenizer_n_ids(eval->text.tokenizer)) {
        tokenizer_token_bytes(eval->text.tokenizer, token, &n_bytes);
        eval->n_bytes += n_bytes;
    }
    return eval_totals_add(&eval->totals, pair);
}

static void add_to_part(struct eval *eval, uint32_t at, double log_probability)
{
    const uint64_t n_parts = eval->values->parts;
    if (n_parts == 0)
        return;
    struct part *part = &eval->parts[at * n_parts / eval->values->window_tokens];
    part->log_sum += log_probability;
    part->n++;
}

/* Rows first .. first + n - 1 of the last step, which predict the tokens of the window from at on. */
static enum status judge_rows(struct eval *eval, uint32_t first, uint32_t n, uint32_t at)
{
    const uint32_t *next = eval->window + at;
    struct batch batch = {.eval = eval, .next = next};

    TRY(eval_model_rows(eval->model, first, n, &batch.logits));
    if (eval->reference)
        TRY(eval_model_rows(eval->reference, first, n, &batch.reference));
    thread_pool_run(eval->threads, n, judge_row, &batch);
    for (uint32_t i = 0; i < n; i++) {
        TRY(add_pair(eval, &batch.pairs[i], next[i]));
        add_to_part(eval, at + i, batch.pairs[i].row.log_probability);
    }
    return STATUS_OK;
}

/* A window of n tokens, of which those from the from-th on are predicted; from > 0. */
static enum status run_window(struct eval *eval, uint32_t n, uint32_t from)
{
    for (uint32_t at = 0, n_chunk; at + 1 < n; at += n_chunk) {
        n_chunk = eval_model_step(eval->model, at, n - at);
        TRY(eval_model_run(eval->model, eval->window, n, at, n_chunk));
        if (eval->reference)
            TRY(eval_model_run(eval->reference, eval->window, n, at, n_chunk));
        uint32_t row = from > at + 1 ? from - at - 1 : 0; /* the row before a token predicts it */
        while (row < n_chunk && at + row + 1 < n) {
            uint32_t n_rows = n_chunk - row < EVAL_ROWS_MAX ? n_chunk - row : EVAL_ROWS_MAX;
            if (at + row + n_rows >= n)
                n_rows = n - 1 - at - row;
            TRY(judge_rows(eval, row, n_rows, at + row + 1));
            row += n_rows;
        }
    }
    return STATUS_OK;
}

static void tell_progress(const struct eval *eval, size_t n_done)
{
    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r%zu of %zu tokens, perplexity %.4f ", n_done, eval->text.n_ids,
                eval_totals_perplexity(&eval->totals));
}

/* Windows over the text's tokens; done is where those end that were predicted, or that no window can predict. */
static enum status run_windows(struct eval *eval)
{
    const bool has_bos = eval->text.bos != TOKEN_NONE;
    const uint32_t room = eval->values->window_tokens - has_bos;
    const uint32_t stride = eval->values->stride_tokens;
    size_t done = 0;

    for (size_t at = 0; done<eval->text.n_ids; at += stride> 0 ? stride : room) {
        const uint32_t n = eval_text_window(&eval->text, at, eval->values->window_tokens,
                                            eval->window);
        const uint32_t known = done > at ? (uint32_t)(done - at) : 0;
        const uint32_t from = known + has_bos > 0 ? known + has_bos : 1;
        TRY(run_window(eval, n + has_bos, from));
        done = at + n;
        if (eval->totals.n > 0)
            tell_progress(eval, done);
    }
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
    return STATUS_OK;
}

/* ---- what is printed ---- */

static double number(const json_t *facts, const char *key)
{
    return json_number_value(json_object_get(facts, key));
}

static void print_comparison(const json_t *facts)
{
    const json_t *divergence = json_object_get(facts, "divergence");
    const json_t *difference = json_object_get(facts, "log_probability_difference");

    printf("perplexity      %.4f of the other model: %+.2f %%\n",
           number(facts, "reference_perplexity"),
           100 * (number(facts, "perplexity") / number(facts, "reference_perplexity") - 1));
    printf("same token      %.2f %% of the likeliest next tokens are the other model's\n",
           100 * number(facts, "same_token"));
    printf("divergence      %.6f nats on average, 99 of 100 up to %.6f, at most %.6f\n",
           number(divergence, "mean"), number(divergence, "p99"), number(divergence, "max"));
    printf("log-probability differs by %.6f on average, at most %.6f\n", number(difference, "mean"),
           number(difference, "max"));
}

static void print_lines(const json_t *facts)
{
    printf("tokens          %" JSON_INTEGER_FORMAT " predicted\n",
           json_integer_value(json_object_get(facts, "tokens")));
    printf("perplexity      %.4f\n", number(facts, "perplexity"));
    printf("bits            %.4f a byte\n", number(facts, "bits_per_byte"));
    if (json_object_get(facts, "divergence"))
        print_comparison(facts);
    size_t i;
    const json_t *part;
    json_array_foreach(json_object_get(facts, "parts"), i, part)
        printf("part %-10zu %.4f, of %" JSON_INTEGER_FORMAT " tokens\n", i + 1,
               number(part, "perplexity"), json_integer_value(json_object_get(part, "tokens")));
    printf("kv              %s\n", json_string_value(json_object_get(facts, "kv_dtype")));
}

static enum status print_facts(struct eval *eval)
{
    json_t *facts = eval_totals_json(&eval->totals, eval->n_bytes), *parts = json_array();
    if (!facts || !parts) {
        json_decref(facts);
        json_decref(parts);
        return STATUS_NO_MEMORY;
    }
    json_object_update_new(
        facts, json_pack("{s:s, s:I, s:I}", "kv_dtype", eval_model_kv_dtype(eval->model),
                         "window_tokens", (json_int_t)eval->values->window_tokens, "stride_tokens",
                         (json_int_t)eval->values->stride_tokens));
    for (uint32_t i = 0; i < eval->values->parts; i++)
        if (eval->parts[i].n > 0)
            json_array_append_new(parts,
                                  json_pack("{s:f, s:I}", "perplexity",
                                            exp(-eval->parts[i].log_sum / (double)eval->parts[i].n),
                                            "tokens", (json_int_t)eval->parts[i].n));
    if (eval->values->parts > 0)
        json_object_set(facts, "parts", parts);
    json_decref(parts);
    if (eval->values->json) {
        json_dumpf(facts, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(12));
        putchar('\n');
    } else {
        print_lines(facts);
    }
    json_decref(facts);
    return STATUS_OK;
}

static enum status evaluate(struct eval *eval)
{
    const struct eval_config *values = eval->values;

    if (values->stride_tokens >= values->window_tokens)
        return error_set(eval->error, STATUS_INVALID_ARGUMENT,
                         "stride_tokens is %u, it must be below window_tokens, which is %u",
                         values->stride_tokens, values->window_tokens);
    TRY(read_text(eval));
    TRY(open_models(eval));
    TRY(run_windows(eval));
    return print_facts(eval);
}

int eval_main(const struct config_input *input)
{
    struct eval_config values;
    struct config *config;
    int exit_status;
    if (command_configure(eval_config_table(), input, &values, &config, &exit_status))
        return exit_status;
    interrupt_ends();
    output_begin();
    struct error error = {""};
    struct eval eval = {.folder = config_positional(config, 0), .values = &values, .error = &error};
    enum status status = evaluate(&eval);
    close_all(&eval);
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s: %s\n", input->command, status_name(status),
                error.text[0] ? error.text : status_text(status));
    config_destroy(config);
    return output_end(input->command, status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE);
}
