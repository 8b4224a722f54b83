/* screen: a frame fits its window, whatever the text is, and erases what was there before without an erased screen. */
#include "cli/client/screen.h"

#include <criterion/criterion.h>
#include <string.h>

static const char *frame(const char *text, unsigned lines, unsigned columns)
{
    static char out[512];
    size_t n = screen_frame(text, strlen(text), lines, columns, out, sizeof out - 1);
    out[n] = '\0';
    return out;
}

Test(screen, each_line_erases_its_rest)
{
    cr_expect_str_eq(frame("one\ntwo\n", 24, 80), "\033[Hone\033[K\r\ntwo\033[K\033[J");
    cr_expect_str_eq(frame("one", 24, 80), "\033[Hone\033[K\033[J");
    cr_expect_str_eq(frame("", 24, 80), "\033[H\033[J");
    cr_expect_str_eq(frame("\n\nx", 24, 80), "\033[H\033[K\r\n\033[K\r\nx\033[K\033[J");
}

Test(screen, what_does_not_fit_the_window_is_cut)
{
    cr_expect_str_eq(frame("abcdef\nghi\njkl\n", 2, 3), "\033[Habc\033[K\r\nghi\033[K\033[J");
    cr_expect_str_eq(frame("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80x", 1, 2),
                     "\033[H\xc3\xa4\xe2\x82\xac\033[K\033[J", "characters, not bytes");
    cr_expect_str_eq(frame("\x80\x80\x80z", 1, 1), "\033[H\x80\x80\x80\033[K\033[J");
}

Test(screen, no_byte_leaves_its_room)
{
    char out[64];
    for (size_t room = 0; room < sizeof out; room++) {
        memset(out, 7, sizeof out);
        cr_assert_leq(screen_frame("one\ntwo\nthree\n", 14, 24, 80, out, room), room);
        cr_assert(room == sizeof out || out[room] == 7);
    }
}
