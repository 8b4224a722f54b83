#include "cli/client/reply_printer.h"

#include "base/utf8.h"
#include "cli/output.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHOWN_TOKEN_BYTES 64u

void reply_printer_init(struct reply_printer *printer, const struct reply_printer_options *options)
{
    assert(options->n_choices >= 1 && options->n_choices <= REPLY_CHOICES_MAX);
    *printer = (struct reply_printer){.options = *options};
    reply_init(&printer->reply, options->n_choices, options->bytes_max);
}

void reply_printer_finish(struct reply_printer *printer)
{
    reply_finish(&printer->reply);
    reply_texts_finish(&printer->texts);
}

static bool keeps(const struct reply_printer *printer)
{
    const struct reply_printer_options *options = &printer->options;
    return options->keeps || options->is_json || options->has_logprobs ||
           options->has_prompt_logprobs || options->has_scores || options->n_choices > 1;
}

bool reply_printer_needs_texts(const struct reply_printer *printer)
{
    return printer->options.has_logprobs || printer->options.has_prompt_logprobs;
}

static bool write_text(struct reply_printer *printer, const void *text, size_t n)
{
    if (n == 0)
        return true;
    printer->has_text = true;
    printer->is_mid_line = ((const char *)text)[n - 1] != '\n';
    printer->is_unprinted = !output_write_text(text, n);
    return !printer->is_unprinted;
}

void reply_printer_end_line(struct reply_printer *printer)
{
    if (printer->is_mid_line)
        (void)output_write("\n", 1);
    printer->is_mid_line = false;
}

static bool show_header(struct reply_printer *printer)
{
    char header[64];
    if (printer->has_header || printer->options.n_choices == 1)
        return true;
    printer->has_header = true;
    int n = snprintf(header, sizeof header, "--- choice %" PRIu32 " of %" PRIu32 " ---\n",
                     printer->on_show + 1, printer->options.n_choices);
    assert(n > 0 && (size_t)n < sizeof header);
    printer->has_text = true;
    printer->is_unprinted = !output_write(header, (size_t)n);
    return !printer->is_unprinted;
}

/* What is known of the choice on show; behind its end, of the next. */
static bool show(struct reply_printer *printer)
{
    while (printer->on_show < printer->options.n_choices) {
        const struct reply_choice *choice = &printer->reply.choices[printer->on_show];
        if (!show_header(printer))
            return false;
        assert(printer->n_shown <= choice->n_text);
        if (choice->n_text > printer->n_shown &&
            !write_text(printer, choice->text + printer->n_shown,
                        choice->n_text - printer->n_shown))
            return false;
        printer->n_shown = choice->n_text;
        if (!choice->has_ended)
            return true;
        reply_printer_end_line(printer);
        printer->on_show++;
        printer->n_shown = 0;
        printer->has_header = false;
    }
    return true;
}

enum status reply_printer_take(struct reply_printer *printer,
                               const Kvferry__V1__GenerateResponse *message, struct error *error)
{
    bool is_printed = true;
    if (keeps(printer))
        TRY(reply_take(&printer->reply, message, error));
    if (printer->options.n_choices > 1 && !printer->options.is_json)
        is_printed = show(printer);
    else if (!printer->options.is_json)
        is_printed = write_text(printer, message->text.data, message->text.len);
    return is_printed ? STATUS_OK : STATUS_IO_FAILED;
}

/* ---- log-probabilities ---- */

static void print_token(const struct reply_printer *printer, uint32_t id, float logprob)
{
    const struct reply_text *text = reply_texts_find(&printer->texts, id);
    char shown[SHOWN_TOKEN_BYTES] = "";
    if (text)
        utf8_clean(text->text, text->bytes, shown, sizeof shown);
    fprintf(stderr, text ? "%.4f %" PRIu32 " \"%s\"" : "%.4f %" PRIu32 "%s", (double)logprob, id,
            shown);
}

/* Of a choice, or of the prompt. */
static void print_tokens(const struct reply_printer *printer, const struct reply_choice *choice)
{
    for (size_t i = 0; i < choice->n_tokens; i++) {
        const struct reply_token *token = &choice->tokens[i];
        assert(token->first_top + token->n_top <= choice->n_tops);
        if (!token->has_logprob)
            continue;
        fputs("  ", stderr);
        print_token(printer, token->id, token->logprob);
        for (uint32_t t = 0; t < token->n_top; t++) {
            const struct reply_top *top = &choice->tops[token->first_top + t];
            fputs(t == 0 ? " | " : ", ", stderr);
            print_token(printer, top->id, top->logprob);
        }
        fputc('\n', stderr);
    }
}

static void print_scores(const struct reply_printer *printer)
{
    for (uint32_t i = 0; i < printer->options.n_choices; i++) {
        const struct reply_choice *choice = &printer->reply.choices[i];
        if (choice->has_score)
            fprintf(stderr, "score of choice %" PRIu32 ": %.6g (%s)\n", i + 1,
                    (double)choice->score, finish_reason_name(choice->reason));
    }
}

static void print_logprobs(const struct reply_printer *printer)
{
    const struct reply_printer_options *options = &printer->options;
    if (options->has_prompt_logprobs)
        fputs("log-probabilities of the prompt: of the token, then of the likeliest\n", stderr);
    print_tokens(printer, &printer->reply.prompt);
    for (uint32_t i = 0; options->has_logprobs && i < options->n_choices; i++) {
        fprintf(stderr,
                "log-probabilities of choice %" PRIu32 ": of the token, then of the likeliest\n",
                i + 1);
        print_tokens(printer, &printer->reply.choices[i]);
    }
}

/* ---- JSON ---- */

static json_t *token_json(const struct reply_printer *printer, uint32_t id, float logprob)
{
    const struct reply_text *text = reply_texts_find(&printer->texts, id);
    return json_pack("{s:I, s:o, s:f}", "id", (json_int_t)id, "text",
                     text ? json_stringn(text->text, text->bytes) : json_null(), "logprob",
                     (double)logprob);
}

static json_t *logprobs_json(const struct reply_printer *printer, const struct reply_choice *choice)
{
    json_t *all = json_array();
    assert(keeps(printer));
    for (size_t i = 0; i < choice->n_tokens; i++) {
        const struct reply_token *token = &choice->tokens[i];
        json_t *top = json_array(), *row = token_json(printer, token->id, token->logprob);
        if (!token->has_logprob) /* a prompt's first token */
            (void)json_object_set_new(row, "logprob", json_null());
        for (uint32_t t = 0; t < token->n_top; t++) {
            const struct reply_top *one = &choice->tops[token->first_top + t];
            (void)json_array_append_new(top, token_json(printer, one->id, one->logprob));
        }
        (void)json_object_set_new(row, "top", top);
        (void)json_array_append_new(all, row);
    }
    return all;
}

static json_t *choice_json(const struct reply_printer *printer, uint32_t index)
{
    const struct reply_choice *choice = &printer->reply.choices[index];
    json_t *ids = json_array();
    for (size_t i = 0; i < choice->n_tokens; i++)
        (void)json_array_append_new(ids, json_integer(choice->tokens[i].id));
    json_t *root = json_pack("{s:s, s:I, s:o, s:s, s:o, s:{s:I, s:I, s:I}}", "request_id",
                             printer->reply.request_id, "index", (json_int_t)index, "text",
                             json_stringn(choice->n_text ? choice->text : "", choice->n_text),
                             "finish_reason", finish_reason_name(choice->reason), "token_ids", ids,
                             "usage", "prompt_tokens", (json_int_t)choice->prompt_tokens,
                             "cached_tokens", (json_int_t)choice->cached_tokens, "generated_tokens",
                             (json_int_t)choice->generated_tokens);
    if (root && choice->has_stop_id)
        (void)json_object_set_new(root, "stop_token_id", json_integer(choice->stop_id));
    if (root && choice->stop_text)
        (void)json_object_set_new(root, "stop_string",
                                  json_stringn(choice->stop_text, choice->n_stop_text));
    if (root && choice->has_score && isfinite(choice->score)) /* JSON has no infinity */
        (void)json_object_set_new(root, "beam_score", json_real((double)choice->score));
    if (root && printer->options.has_logprobs)
        (void)json_object_set_new(root, "logprobs", logprobs_json(printer, choice));
    if (root && printer->options.has_prompt_logprobs && index == 0)
        (void)json_object_set_new(root, "prompt_logprobs",
                                  logprobs_json(printer, &printer->reply.prompt));
    return root;
}

static void print_json(struct reply_printer *printer)
{
    for (uint32_t i = 0; i < printer->options.n_choices && !printer->is_unprinted; i++) {
        json_t *root = choice_json(printer, i);
        char *line = root ? json_dumps(root, JSON_COMPACT) : NULL;
        json_decref(root);
        if (!line) {
            fprintf(stderr, "kvferry: choice %" PRIu32 ": %s\n", i, status_text(STATUS_NO_MEMORY));
            printer->is_unprinted = true;
            return;
        }
        printer->has_text = true;
        printer->is_unprinted = !output_write(line, strlen(line)) || !output_write("\n", 1);
        free(line);
    }
}

void reply_printer_end(struct reply_printer *printer)
{
    if (printer->options.is_json) {
        print_json(printer);
        return;
    }
    if (printer->options.has_scores)
        print_scores(printer);
    print_logprobs(printer);
}
