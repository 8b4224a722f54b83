/* utf8: exactly the forms of Unicode 15, table 3-7, are whole; what is cut or cleaned stays UTF-8. */
#include "base/utf8.h"

#include <criterion/criterion.h>
#include <string.h>

static enum utf8_form form_of(const char *bytes, size_t n_bytes, size_t *length_out)
{
    return utf8_sequence((const uint8_t *)bytes, n_bytes, length_out);
}

Test(utf8, every_code_point_is_written_judged_and_read_back)
{
    for (uint32_t codepoint = 0; codepoint <= 0x10ffff; codepoint++) {
        char text[4];
        size_t n = utf8_write(codepoint, text), length;
        uint32_t again;
        bool is_surrogate = codepoint >= 0xd800 && codepoint <= 0xdfff;
        enum utf8_form form = form_of(text, n, &length);
        cr_assert_eq(form, is_surrogate ? UTF8_INVALID : UTF8_WHOLE, "U+%04X", codepoint);
        if (is_surrogate)
            continue;
        cr_assert_eq(length, n, "U+%04X", codepoint);
        cr_assert_eq(utf8_read(text, &again), n, "U+%04X", codepoint);
        cr_assert_eq(again, codepoint);
    }
}

/* With the test above: no byte more or less than the code points of that length. */
Test(utf8, nothing_else_of_two_or_three_bytes_is_whole)
{
    size_t n_whole[4] = {0};
    for (uint32_t code = 0; code < 1u << 24; code++) {
        const uint8_t bytes[] = {(uint8_t)(code >> 16), (uint8_t)(code >> 8), (uint8_t)code};
        size_t length;
        if (utf8_sequence(bytes, sizeof bytes, &length) == UTF8_WHOLE)
            n_whole[length]++;
    }
    cr_assert_eq(n_whole[1], (size_t)0x80 << 16);
    cr_assert_eq(n_whole[2], (size_t)(0x800 - 0x80) << 8);
    cr_assert_eq(n_whole[3], 0x10000 - 0x800 - 0x800);
}

Test(utf8, nothing_else_of_four_bytes_is_whole)
{
    size_t n_whole = 0;
    for (uint32_t lead = 0xf0; lead <= 0xff; lead++)
        for (uint32_t rest = 0; rest < 1u << 16; rest++) {
            const uint8_t third = (uint8_t)(rest >> 8), second = (uint8_t)rest;
            const uint8_t bytes[] = {(uint8_t)lead, second, third, 0xbf};
            size_t length;
            if (utf8_sequence(bytes, sizeof bytes, &length) == UTF8_WHOLE)
                n_whole++;
        }
    cr_assert_eq(n_whole, 0x100000 >> 6, "one last byte of 64");
}

Test(utf8, a_cut_character_is_a_part_and_a_wrong_one_a_maximal_subpart)
{
    static const struct {
        const char *bytes;
        enum utf8_form form;
        size_t length;
    } cases[] = {
        {"\xe2\x82", UTF8_PART, 2},
        {"\xf0\x9f\x98", UTF8_PART, 3},
        {"\xf0", UTF8_PART, 1},
        {"\xe2\x82x", UTF8_INVALID, 2},
        {"\xf0\x9f\x98x", UTF8_INVALID, 3},
        {"\xed\xa0\x80", UTF8_INVALID, 1},
        {"\xc0\x80", UTF8_INVALID, 1},
        {"\xf4\x90\x80\x80", UTF8_INVALID, 1},
        {"\x80", UTF8_INVALID, 1},
        {"\xff", UTF8_INVALID, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t length;
        cr_assert_eq(form_of(cases[i].bytes, strlen(cases[i].bytes), &length), cases[i].form, "%zu",
                     i);
        cr_assert_eq(length, cases[i].length, "%zu", i);
    }
}

/* At every place of the eight bytes that are looked at together. */
Test(utf8, the_first_invalid_byte_is_found_wherever_it_is)
{
    char text[40];
    for (size_t at = 0; at < sizeof text; at++) {
        memset(text, 'a', sizeof text);
        text[at] = '\x80';
        cr_assert_eq(utf8_first_invalid(text, sizeof text), at);
        if (at == 0)
            continue;
        memcpy(text + at - 1, "\xc3\xa4", 2);
        cr_assert_eq(utf8_first_invalid(text, sizeof text), sizeof text);
        cr_assert_eq(utf8_first_invalid(text, at), at - 1, "cut within the character");
        cr_assert_eq(utf8_previous(text, at + 1), at - 1);
    }
    cr_assert_eq(utf8_first_invalid(text, 0), 0);
    cr_assert_eq(utf8_first_invalid("\xF0\x9F\x98\x80x\x80", 6), 5);
}

Test(utf8, characters_are_counted)
{
    cr_assert_eq(utf8_count("", 0), 0);
    cr_assert_eq(utf8_count("a\0\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80x", 12), 6);
}

Test(utf8, cleaning_keeps_characters_whole_and_replaces_the_rest)
{
    char out[6];
    utf8_clean("ab\xE2\x82\xAC\xE2\x82\xAC", 8, out, sizeof out);
    cr_assert_str_eq(out, "ab\xE2\x82\xAC");
    utf8_clean("a\nb\xFF", 4, out, sizeof out);
    cr_assert_str_eq(out, "a?b?");
    utf8_clean("\0\x7f\xE2\x82", 4, out, sizeof out);
    cr_assert_str_eq(out, "????");
    utf8_clean("abcdefgh", 8, out, sizeof out);
    cr_assert_str_eq(out, "abcde");
}
