/* reply_texts: the text of one token is found in that of the token twice, with the blank that a decoder drops at the beginning. */
#include "cli/client/reply_texts.c"

#include <criterion/criterion.h>
#include <stdio.h>

static void expect(const char *twice, const char *once)
{
    char text[64];
    struct reply_text row = {.bytes = (uint32_t)strlen(twice), .text = text};
    snprintf(text, sizeof text, "%s", twice);
    cr_assert_eq(keep_second(&row), once != NULL, "\"%s\"", twice);
    if (once) {
        cr_expect_str_eq(row.text, once);
        cr_expect_eq(row.bytes, strlen(once));
    }
}

Test(reply_texts, the_second_of_two_is_whole)
{
    expect(" the the", " the");
    expect("the the", " the");
    expect("abab", "ab");
    expect(" ", " "); /* the first blank was dropped */
    expect("  ", " ");
    expect("", "");
    expect("\xef\xbf\xbd\xef\xbf\xbd", "\xef\xbf\xbd");
}

Test(reply_texts, what_is_no_text_twice_is_left)
{
    expect("abc", NULL);
    expect("abcd", NULL);
    expect("\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd", NULL);
}

Test(reply_texts, each_id_is_asked_for_once)
{
    static const uint32_t IDS[] = {3, 7, 9};
    static struct reply reply;
    struct reply_token tokens[] = {{.id = 7}, {.id = 3}, {.id = 7}};
    struct reply_top tops[] = {{.id = 3}, {.id = 9}};
    struct reply_texts texts = {0};
    reply.n_choices = 1;
    reply.choices[0] = (struct reply_choice){
        .tokens = tokens, .n_tokens = 3, .tops = tops, .n_tops = 2};
    cr_assert_eq(make_rows(&reply, &texts), STATUS_OK);
    cr_assert_eq(texts.n, 3);
    for (uint32_t i = 0; i < 3; i++)
        cr_expect_eq(texts.rows[i].id, IDS[i]);
    cr_expect_null(reply_texts_find(&texts, 7), "it has no text yet");
    texts.rows[1].text = strdup("seven");
    cr_expect_str_eq(reply_texts_find(&texts, 7)->text, "seven");
    cr_expect_null(reply_texts_find(&texts, 8));
    reply_texts_finish(&texts);
}
