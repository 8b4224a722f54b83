#include "cli/client/screen.h"

#include "base/clock.h"
#include "cli/interrupt.h"
#include "cli/output.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ENTER      "\033[?1049h\033[?25l" /* the other screen, no cursor */
#define LEAVE      "\033[?25h\033[?1049l"
#define HOME       "\033[H"
#define ERASE_LINE "\033[K"
#define ERASE_REST "\033[J"
#define LINES      24 /* of a terminal that does not say */
#define COLUMNS    80
#define WINDOW_MAX 1000 /* lines, and columns */

/* What the handler of signals restores. */
static struct termios typed; /* of standard input */
static volatile sig_atomic_t has_typed, is_drawn;

static bool is_terminal(void)
{
    const char *kind = getenv("TERM");
    return isatty(STDOUT_FILENO) == 1 && kind && kind[0] && strcmp(kind, "dumb") != 0;
}

/* Also in a handler of a signal. */
static void restore(void)
{
    if (has_typed)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &typed);
    if (is_drawn && write(STDOUT_FILENO, LEAVE, strlen(LEAVE)) < 0)
        is_drawn = 0; /* there is no terminal any more */
    has_typed = is_drawn = 0;
}

static void on_signal(int signal_number)
{
    restore();
    _exit(interrupt_status(signal_number));
}

/* Keys come at once, and are not shown. */
static void take_keys(void)
{
    if (isatty(STDIN_FILENO) != 1 || tcgetattr(STDIN_FILENO, &typed) != 0)
        return;
    struct termios keys = typed;
    keys.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    has_typed = 1;
    (void)tcsetattr(STDIN_FILENO, TCSANOW, &keys);
}

void screen_open(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    assert(!has_typed && !is_drawn); /* one screen in a process */
    interrupt_ends();
    if (!is_terminal())
        return;
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    (void)atexit(restore);
    take_keys();
    is_drawn = 1;
    (void)output_write(ENTER, strlen(ENTER));
}

void screen_close(void)
{
    restore();
}

/* A place for bytes that drops what has no room. */
struct frame {
    char *out;
    size_t n, max;
};

static void add(struct frame *frame, const char *bytes, size_t n)
{
    assert(frame->n <= frame->max);
    size_t room = frame->max - frame->n;
    size_t taken = n < room ? n : room;
    memcpy(frame->out + frame->n, bytes, taken);
    frame->n += taken;
}

/* Bytes of the first so many characters. */
static size_t cut(const char *line, size_t n, unsigned columns)
{
    size_t at = 0;
    for (unsigned column = 0; at < n && column < columns; column++)
        do
            at++;
        while (at < n && ((unsigned char)line[at] & 0xC0) == 0x80);
    return at;
}

size_t screen_frame(const char *text, size_t n, unsigned lines, unsigned columns, char *out,
                    size_t out_bytes)
{
    struct frame frame = {.out = out, .max = out_bytes};
    add(&frame, HOME, strlen(HOME));
    for (unsigned line = 0; line < lines && n > 0; line++) {
        const char *feed = memchr(text, '\n', n);
        size_t bytes = feed ? (size_t)(feed - text) : n;
        if (line > 0)
            add(&frame, "\r\n", 2);
        add(&frame, text, cut(text, bytes, columns));
        add(&frame, ERASE_LINE, strlen(ERASE_LINE));
        text += feed ? bytes + 1 : n;
        n -= feed ? bytes + 1 : n;
    }
    add(&frame, ERASE_REST, strlen(ERASE_REST));
    return frame.n;
}

bool screen_show(const char *text, size_t n)
{
    struct winsize window = {0};
    if (!is_drawn)
        return output_write(text, n);
    bool is_told = ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_row > 0 &&
                   window.ws_col > 0;
    unsigned lines = is_told && window.ws_row <= WINDOW_MAX ? window.ws_row : LINES;
    unsigned columns = is_told && window.ws_col <= WINDOW_MAX ? window.ws_col : COLUMNS;
    size_t room = n + (size_t)lines * 8 + 16;
    char *out = malloc(room);
    if (!out)
        return output_write(text, n);
    size_t bytes = screen_frame(text, n, lines, columns, out, room);
    assert(bytes < room); /* so nothing was dropped */
    bool is_written = output_write(out, bytes);
    free(out);
    return is_written;
}

bool screen_wait(uint64_t ms)
{
    const uint64_t until_ns = clock_now_ns() + ms * NS_PER_MS;
    for (;;) {
        struct pollfd keys = {.fd = has_typed ? STDIN_FILENO : -1, .events = POLLIN};
        uint64_t now_ns = clock_now_ns();
        char key;
        if (now_ns >= until_ns)
            return true;
        if (poll(&keys, 1, (int)((until_ns - now_ns) / NS_PER_MS + 1)) <= 0)
            continue;
        ssize_t n = read(STDIN_FILENO, &key, 1);
        if (n <= 0 || key == 'q' || key == 'Q' || key == '\004')
            return false;
    }
}
