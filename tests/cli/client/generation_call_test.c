/* generation_call: the figures of --verbose are the result's, in the units that they name. */
#include "cli/client/generation_call.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *print(const struct generation_result *result)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    cr_assert_not_null(out);
    generation_result_print(result, out);
    fclose(out);
    return text;
}

static void expect_line(const char *text, const char *name, const char *value)
{
    char line[160];
    snprintf(line, sizeof line, "  %-18s %s\n", name, value);
    cr_assert_not_null(strstr(text, line), "no \"%s\" in:\n%s", line, text);
}

Test(generation_call, figures_have_their_units)
{
    const struct generation_result result = {
        .prompt_tokens = 1500,
        .cached_tokens = 16,
        .generated_tokens = 51,
        .queue_us = 120,
        .prefill_us = 250000,
        .transfer_us = 1234,
        .decode_us = 500000,
        .first_token_us = 260000,
        .total_us = 800000,
        .kv_bytes_received = 3840000,
        .kv_tokens_received = 1484,
        .kv_tokens_recomputed = 3,
        .context_worker = "127.0.0.1:1",
        .generation_worker = "127.0.0.1:2",
        .transport = "am-tcp",
    };
    char *text = print(&result);
    expect_line(text, "context worker", "127.0.0.1:1");
    expect_line(text, "generation worker", "127.0.0.1:2");
    expect_line(text, "KV", "3840000 bytes over am-tcp, 1484 tokens received, 3 computed locally");
    expect_line(text, "tokens", "1500 prompt (16 cached), 51 generated");
    expect_line(text, "first token", "260.00 ms");
    expect_line(text, "queue", "0.12 ms");
    expect_line(text, "prefill", "250.00 ms");
    expect_line(text, "transfer", "1.23 ms");
    expect_line(text, "decode", "500.00 ms");
    expect_line(text, "total", "800.00 ms");
    expect_line(text, "speed", "100 tokens/s"); /* the first came before decode */
    free(text);
}

Test(generation_call, a_prompt_computed_locally_says_why)
{
    const struct generation_result result = {
        .generated_tokens = 1,
        .prefill_place = KVFERRY__V1__PREFILL_PLACE__PREFILL_PLACE_SHORT_PROMPT,
        .prefill_reason = "the prompt has 4 tokens",
    };
    char *text = print(&result);
    expect_line(text, "context worker", "none (SHORT_PROMPT): the prompt has 4 tokens");
    free(text);
}

Test(generation_call, what_was_not_there_is_not_invented)
{
    const struct generation_result result = {.generated_tokens = 1, .generation_worker = "g:1"};
    char *text = print(&result);
    expect_line(text, "context worker", "none: computed locally");
    expect_line(text, "KV", "0 bytes, 0 tokens received, 0 computed locally");
    cr_assert_null(strstr(text, "speed"), "%s", text);
    free(text);
}

Test(generation_call, the_timeline_has_a_bar_for_each_stage)
{
    const struct generation_result result = {
        .prefill_us = 200,
        .transfer_us = 100,
        .decode_us = 600,
        .first_seen_us = 400,
        .second_seen_us = 450,
        .last_seen_us = 1000,
        .total_us = 1200,
        .kv_bytes_received = 2048,
        .context_worker = "c:1",
        .generation_worker = "g:1",
        .transport = "am-tcp",
    };
    static const char *const lines[] = {
        "  timeline           1.00 ms to the last token, seen from here\n",
        "    router, network  |########                                |\n",
        "    queue            |                                        | c:1\n",
        "    prefill          |        ########                        | c:1\n",
        "    transfer         |              ####                      | 2.0 KiB over am-tcp\n",
        "    decode           |                ########################| g:1\n",
    };
    char *text = print(&result);
    const char *at = text;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        at = strstr(at, lines[i]);
        cr_assert_not_null(at, "no \"%s\" in:\n%s", lines[i], text);
    }
    free(text);
}
