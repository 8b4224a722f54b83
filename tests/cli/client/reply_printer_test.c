/* reply_printer: the replies of a beam search are printed in their order, best first, with a score each: on standard error, or in the
 * JSON. */
#include "cli/client/reply_printer.h"
#include "tests/cli/support/captured.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct reply_printer printer;
static struct error error;

static char out[2048], err[2048]; /* what print has written */

static void take(uint32_t index, const char *text, const float *score)
{
    Kvferry__V1__GenerateResponse message = KVFERRY__V1__GENERATE_RESPONSE__INIT;
    message.index = index;
    message.text = (ProtobufCBinaryData){strlen(text), (uint8_t *)text};
    if (score) {
        message.finish_reason = KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP;
        message.beam_score_presence_case =
            KVFERRY__V1__GENERATE_RESPONSE__BEAM_SCORE_PRESENCE_BEAM_SCORE;
        message.beam_score = *score;
    }
    cr_assert_eq(reply_printer_take(&printer, &message, &error), STATUS_OK);
}

/* As a router tells them: all texts, then all ends. */
static void print(const struct reply_printer_options *options, const float *scores)
{
    static const char *const TEXTS[] = {"light", "dark", "day"};
    struct captured captured_out, captured_err;
    captured_begin(&captured_out, stdout);
    captured_begin(&captured_err, stderr);
    reply_printer_init(&printer, options);
    for (uint32_t i = 0; i < options->n_choices; i++)
        take(i, TEXTS[i], NULL);
    for (uint32_t i = 0; i < options->n_choices; i++)
        take(i, "", &scores[i]);
    reply_printer_end_line(&printer);
    reply_printer_end(&printer);
    reply_printer_finish(&printer);
    captured_end(&captured_err, err, sizeof err);
    captured_end(&captured_out, out, sizeof out);
}

Test(reply_printer, scores_go_to_standard_error)
{
    const struct reply_printer_options options = {
        .n_choices = 2, .has_scores = true, .bytes_max = 1 << 20};
    print(&options, (const float[]){-0.25f, -1.5f});
    cr_expect_str_eq(out, "--- choice 1 of 2 ---\nlight\n--- choice 2 of 2 ---\ndark\n");
    cr_expect_str_eq(err, "score of choice 1: -0.25 (stop)\nscore of choice 2: -1.5 (stop)\n");
}

Test(reply_printer, of_one_reply_too)
{
    const struct reply_printer_options options = {
        .n_choices = 1, .has_scores = true, .bytes_max = 1 << 20};
    print(&options, (const float[]){-INFINITY});
    cr_expect_str_eq(out, "light\n");
    cr_expect_str_eq(err, "score of choice 1: -inf (stop)\n");
}

Test(reply_printer, or_into_the_json)
{
    const struct reply_printer_options options = {
        .n_choices = 3, .is_json = true, .has_scores = true, .bytes_max = 1 << 20};
    print(&options, (const float[]){-0.25f, -1.5f, -INFINITY});
#define USAGE "\"usage\":{\"prompt_tokens\":0,\"cached_tokens\":0,\"generated_tokens\":0}"
    cr_expect_str_eq(
        out, "{\"request_id\":\"\",\"index\":0,\"text\":\"light\",\"finish_reason\":\"stop\","
             "\"token_ids\":[]," USAGE ",\"beam_score\":-0.25}\n"
             "{\"request_id\":\"\",\"index\":1,\"text\":\"dark\",\"finish_reason\":\"stop\","
             "\"token_ids\":[]," USAGE ",\"beam_score\":-1.5}\n"
             "{\"request_id\":\"\",\"index\":2,\"text\":\"day\",\"finish_reason\":\"stop\","
             "\"token_ids\":[]," USAGE "}\n");
    cr_expect_str_eq(err, "");
}
