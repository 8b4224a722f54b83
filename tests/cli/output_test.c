/* output: text of a model cannot steer a terminal, and reaches a file byte by byte. */
#include "cli/output.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

/* A clear screen, a title, C1, an override of the direction, a NUL, a backspace, DEL; and what stays. */
static const char TEXT[] = "a\033[2Jb\033]0;t\007c\xc2\x9b"
                           "d\xe2\x80\xae"
                           "e\0f\bg\x7fh\r\n\ti\xc3\xa9\xf0\x9f\x98\x80";
static const char SHOWN[] = "a?[2Jb?]0;t?c?d?e?f?g?h?\n\ti\xc3\xa9\xf0\x9f\x98\x80";

#define END           "[end]" /* behind all that is to come */
#define READ_LIMIT_MS 10000

static size_t print_to(int descriptor)
{
    int saved = dup(STDOUT_FILENO);
    fflush(stdout);
    cr_assert_geq(dup2(descriptor, STDOUT_FILENO), 0);
    bool is_written = output_write_text(TEXT, sizeof TEXT - 1);
    cr_assert_geq(dup2(saved, STDOUT_FILENO), 0);
    close(saved);
    return is_written ? sizeof TEXT - 1 : 0;
}

/* A terminal hands on what was written in as many parts as it likes. Until n bytes are there, or nothing more comes. */
static size_t read_all(int master, char *out, size_t n)
{
    size_t n_read = 0;
    struct pollfd readable = {.fd = master, .events = POLLIN};
    while (n_read < n && poll(&readable, 1, READ_LIMIT_MS) > 0) {
        ssize_t part = read(master, out + n_read, n - n_read);
        cr_assert_gt(part, 0);
        n_read += (size_t)part;
    }
    return n_read;
}

Test(output, text_of_a_model_has_no_controls_on_a_terminal)
{
    int master, terminal;
    char shown[256] = "";
    struct termios raw;
    cr_assert_eq(openpty(&master, &terminal, NULL, NULL, NULL), 0);
    cr_assert_eq(tcgetattr(terminal, &raw), 0);
    cfmakeraw(&raw);
    cr_assert_eq(tcsetattr(terminal, TCSANOW, &raw), 0);
    cr_assert_gt(print_to(terminal), 0);
    cr_assert_eq(write(terminal, END, sizeof END - 1), (ssize_t)sizeof END - 1);
    size_t n = read_all(master, shown, sizeof SHOWN - 1 + sizeof END - 1);
    cr_assert_eq(n, sizeof SHOWN - 1 + sizeof END - 1, "%zu bytes: %s", n, shown);
    cr_assert_arr_eq(shown, SHOWN, sizeof SHOWN - 1);
    cr_assert_arr_eq(shown + sizeof SHOWN - 1, END, sizeof END - 1, "more was written: %s", shown);
    close(terminal);
    close(master);
}

Test(output, text_of_a_model_is_whole_in_a_file)
{
    int ends[2];
    char got[256];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    cr_assert_gt(print_to(ends[1]), 0);
    ssize_t n = read(ends[0], got, sizeof got);
    cr_assert_eq(n, sizeof TEXT - 1);
    cr_assert_arr_eq(got, TEXT, sizeof TEXT - 1);
    close(ends[0]);
    close(ends[1]);
}
