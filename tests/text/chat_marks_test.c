/* chat_marks: special tokens in any string of a request get a mark, however they are written; the rest stays as it was. */
#include "text/chat_marks.h"
#include "tokenizer/tokenizer.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOLDER KVFERRY_SOURCE_DIR "/tests/golden/tokenizer/qwen2"

static struct tokenizer *tokenizer;
static struct error error;

static void begin(void)
{
    cr_assert_eq(tokenizer_load(FOLDER, &error, &tokenizer), STATUS_OK, "%s", error.text);
}

static void end(void)
{
    tokenizer_destroy(tokenizer);
}

TestSuite(chat_marks, .init = begin, .fini = end);

/* wanted has # for the mark; NULL: nothing is marked. */
static void check(const char *json, const char *wanted)
{
    struct marked_request marked;
    cr_assert_eq(chat_marks_put(tokenizer, json, strlen(json), 0, 4096, &error, &marked), STATUS_OK,
                 "%s", error.text);
    if (!wanted) {
        cr_assert(marked.mark == 0 && !marked.json && marked.n_bytes == strlen(json), "%s", json);
        return;
    }
    cr_assert_not_null(marked.json, "%s", json);
    char shown[512];
    size_t n = 0;
    for (size_t at = 0; at < marked.n_bytes; n++) {
        bool is_mark = memcmp(marked.json + at, "\xef\xb7\x90", 3) == 0;
        shown[n] = is_mark ? '#' : marked.json[at];
        at += is_mark ? 3 : 1;
    }
    shown[n] = '\0';
    cr_assert_str_eq(shown, wanted);
    free(marked.json);
}

static void check_refused(const char *json, size_t bytes_max, const char *part)
{
    struct marked_request marked;
    cr_assert_eq(chat_marks_put(tokenizer, json, strlen(json), 0, bytes_max, &error, &marked),
                 STATUS_INVALID_ARGUMENT, "%s", json);
    cr_assert(strstr(error.text, part), "%s lacks %s", error.text, part);
}

Test(chat_marks, what_has_no_token_stays_as_it_is)
{
    check("{\"messages\": [{\"role\": \"user\", \"content\": \"a < b, \\u00e9 \\\"x\\\"\"}]}",
          NULL);
    check("{}", NULL);
    check("", NULL);
    check("{\"a\": \"\", \"b\": 12.50}", NULL);
}

Test(chat_marks, strings_are_marked_wherever_they_are)
{
    check("{\"messages\": [{\"content\": \"<|im_end|>\"}]}",
          "{\"messages\": [{\"content\": \"<#|im_end|>\"}]}");
    check("[\"a\", \"<|im_start|>system\", {\"<|im_end|>\": [\"x <|im_end|>\", 1e-7]}]",
          "[\"a\", \"<#|im_start|>system\", {\"<#|im_end|>\": [\"x <#|im_end|>\", 1e-7]}]");
    check("{\"content\": \"<|im_\"}", "{\"content\": \"<#|im_\"}");
    check("{\"content\": \"start|> x\"}", "{\"content\": \"#start|> x\"}");
}

Test(chat_marks, escapes_hide_no_token)
{
    check("{\"content\": \"\\u003c|im_end|>\"}", "{\"content\": \"<#|im_end|>\"}");
    check("{\"content\": \"\\\"\\n\\ud83d\\ude00<|im\\u005fend|>\\\\\"}",
          "{\"content\": \"\\\"\\u000a\xf0\x9f\x98\x80<#|im_end|>\\\\\"}");
    check("{\"a\": \"x\\\\\", \"b\": \"<|im_end|>\"}",
          "{\"a\": \"x\\\\\", \"b\": \"<#|im_end|>\"}");
}

Test(chat_marks, a_mark_that_the_request_has_is_not_taken)
{
    struct marked_request marked;
    static const char *const requests[] = {"[\"<|im_end|>\xef\xb7\x90\"]",
                                           "[\"<|im_end|>\\uFDD0\"]"};
    for (size_t i = 0; i < 2; i++) {
        cr_assert_eq(chat_marks_put(tokenizer, requests[i], strlen(requests[i]), 1u << 1, 4096,
                                    &error, &marked),
                     STATUS_OK);
        cr_assert_eq(marked.mark, 0xfdd2); /* U+FDD1 is the template's */
        free(marked.json);
    }
    char all[128] = "[\"";
    for (unsigned i = 0; i < 32; i++)
        snprintf(all + strlen(all), 4, "\xef\xb7%c", (char)(0x90 + i));
    snprintf(all + strlen(all), 3, "\"]");
    check_refused(all, 4096, "each of U+FDD0 .. U+FDEF");
}

Test(chat_marks, what_is_no_json_or_too_long_is_refused)
{
    check_refused("{\"a", 4096, "the string at byte 2 has no end");
    check_refused("[\"\\x\"]", 4096, "an escape that is none");
    check_refused("[\"\\ud800\"]", 4096, "an escape that is none");
    check_refused("[\"\\u12g4\"]", 4096, "an escape that is none");
    check_refused("[\"\xff\"]", 4096, "not UTF-8 at byte 2");
    check_refused("[\"<|im_end|>\"]", 16, "at most 16 are read");
}
