#include "cli/chat/terminal_input.h"

#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define REPLACEMENT 0xfffd

static void change_mask(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTSTP);
    (void)sigprocmask(how, &set, NULL);
}

enum status terminal_input_open(struct terminal_input *input, struct error *error)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGTSTP);
    *input = (struct terminal_input){.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (input->signals >= 0)
        return STATUS_OK;
    return error_set(error, STATUS_IO_FAILED, "cannot wait for signals: %s", strerror(errno));
}

void terminal_input_close(struct terminal_input *input)
{
    assert(input->signals >= 0);
    close(input->signals);
}

void terminal_input_begin(void)
{
    change_mask(SIG_BLOCK);
}

void terminal_input_end(void)
{
    change_mask(SIG_UNBLOCK);
}

/* False: it was heard by another reader. */
static bool take_signal(struct terminal_input *input, enum input_event *event_out)
{
    struct signalfd_siginfo info;
    if (read(input->signals, &info, sizeof info) != sizeof info)
        return false;
    *event_out = info.ssi_signo == SIGINT     ? INPUT_INTERRUPT
                 : info.ssi_signo == SIGTERM  ? INPUT_TERM
                 : info.ssi_signo == SIGWINCH ? INPUT_RESIZED
                                              : INPUT_PAUSE;
    if (info.ssi_signo == SIGINT)
        input->at = input->n = 0;
    return true;
}

/* Makes at least one byte more. */
static enum input_event fill(struct terminal_input *input)
{
    struct pollfd fds[] = {{.fd = input->signals, .events = POLLIN},
                           {.fd = STDIN_FILENO, .events = POLLIN}};
    assert(input->at <= input->n);
    memmove(input->bytes, input->bytes + input->at, input->n - input->at);
    input->n -= input->at;
    input->at = 0;
    assert(input->n < sizeof input->bytes); /* no more is left than a part of a character */
    for (;;) {
        enum input_event event;
        (void)poll(fds, 2, -1);
        if (fds[0].revents && take_signal(input, &event))
            return event;
        if (!fds[1].revents)
            continue;
        ssize_t n = read(STDIN_FILENO, input->bytes + input->n, sizeof input->bytes - input->n);
        if (n > 0) {
            input->n += (size_t)n;
            return INPUT_CHARACTER;
        }
        if (n == 0 || (errno != EINTR && errno != EAGAIN))
            return INPUT_END;
    }
}

enum input_event terminal_input_next(struct terminal_input *input, wchar_t *character_out)
{
    size_t length = 0;
    for (;;) {
        enum utf8_form form = UTF8_PART;
        if (input->at < input->n)
            form = utf8_sequence(input->bytes + input->at, input->n - input->at, &length);
        if (form != UTF8_PART) {
            uint32_t codepoint = REPLACEMENT;
            if (form == UTF8_WHOLE)
                (void)utf8_read((const char *)input->bytes + input->at, &codepoint);
            assert(length > 0 && length <= input->n - input->at);
            input->at += length;
            *character_out = (wchar_t)codepoint;
            return INPUT_CHARACTER;
        }
        enum input_event event = fill(input);
        if (event != INPUT_CHARACTER)
            return event;
    }
}
