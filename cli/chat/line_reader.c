#include "cli/chat/line_reader.h"

#include "base/utf8.h"
#include "cli/chat/history_file.h"
#include "cli/chat/terminal_input.h"

#include <assert.h>
#include <histedit.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PASTE_BEGIN "\\e[200~"
#define PASTE_END   L"\033[201~"
#define PASTE_ON    "\033[?2004h"
#define PASTE_OFF   "\033[?2004l"

struct line_reader {
    struct line_reader_options options;
    EditLine *edit;
    History *history;
    char path[PATH_MAX]; /* of the history; "": none */
    struct terminal_input input;
    bool knows_paste;
    /* Of the message that is read. */
    char *text;
    size_t n;
    enum line_end end; /* why no line came */
    bool is_too_long;
};

static struct line_reader *reader_of(EditLine *edit)
{
    void *reader = NULL;
    (void)el_get(edit, EL_CLIENTDATA, &reader);
    assert(reader);
    return reader;
}

static char *prompt_of(EditLine *edit)
{
    static char prompt[64];
    const struct line_reader *reader = reader_of(edit);
    snprintf(prompt, sizeof prompt, "%s",
             reader->n > 0 ? reader->options.more_prompt : reader->options.prompt);
    return prompt;
}

/* ---- characters ---- */

static void switch_paste(const struct line_reader *reader, const char *sequence)
{
    if (!reader->knows_paste)
        return;
    fputs(sequence, stdout);
    (void)fflush(stdout);
}

/* As the shell wants it: the terminal is its own meanwhile. */
static void stop_until_continued(EditLine *edit)
{
    const struct line_reader *reader = reader_of(edit);
    switch_paste(reader, PASTE_OFF);
    (void)el_set(edit, EL_PREP_TERM, 0);
    (void)raise(SIGSTOP);
    (void)el_set(edit, EL_PREP_TERM, 1);
    switch_paste(reader, PASTE_ON);
    (void)el_set(edit, EL_REFRESH);
}

static bool is_empty(EditLine *edit, const struct line_reader *reader)
{
    const LineInfo *line = el_line(edit);
    return reader->n == 0 && line->lastchar == line->buffer;
}

/* For libedit: 1, or -1 at the end of the line. */
static int read_character(EditLine *edit, wchar_t *out)
{
    struct line_reader *reader = reader_of(edit);
    for (;;) {
        switch (terminal_input_next(&reader->input, out)) {
        case INPUT_CHARACTER:
            return 1;
        case INPUT_RESIZED:
            el_resize(edit);
            break;
        case INPUT_PAUSE:
            stop_until_continued(edit);
            break;
        case INPUT_INTERRUPT:
            reader->end = is_empty(edit, reader) ? LINE_INTERRUPT : LINE_EMPTIED;
            return -1;
        case INPUT_TERM:
            reader->end = LINE_SIGNAL;
            return -1;
        case INPUT_END:
            return -1;
        }
    }
}

/* ---- pastes ---- */

struct paste {
    wchar_t *text;
    size_t n, room, n_matched; /* n_matched: of PASTE_END */
};

static bool paste_add(struct paste *paste, wchar_t character, size_t max)
{
    assert(paste->n < paste->room || paste->room == 0); /* the end of the text has its place */
    if (paste->n >= max)
        return false;
    if (paste->n + 2 > paste->room) {
        size_t room = paste->room * 2 + 256;
        wchar_t *larger = realloc(paste->text, room * sizeof *larger);
        if (!larger)
            return false;
        paste->text = larger;
        paste->room = room;
    }
    paste->text[paste->n++] = character;
    paste->text[paste->n] = L'\0';
    return true;
}

/* True: this character completes the mark. */
static bool is_end(struct paste *paste, wchar_t character)
{
    static const wchar_t END[] = PASTE_END;
    assert(paste->n_matched < sizeof END / sizeof *END - 1); /* the caller stops at the mark */
    paste->n_matched = character == END[paste->n_matched] ? paste->n_matched + 1
                       : character == END[0]              ? 1
                                                          : 0;
    return paste->n_matched == sizeof END / sizeof *END - 1;
}

/* Terminals paste a line feed as a carriage return. What else would steer the terminal is left out, and the mark of the end
 * loses its ESC by that. */
static unsigned char take_paste(EditLine *edit, int key)
{
    struct line_reader *reader = reader_of(edit);
    struct paste paste = {0};
    wchar_t character, before = 0;
    bool fits = true;
    (void)key;
    int got;
    while ((got = read_character(edit, &character)) == 1 && !is_end(&paste, character)) {
        bool is_second = before == L'\r' && character == L'\n';
        before = character;
        if (character == L'\r')
            character = L'\n';
        bool is_shown = character == L'\n' || character == L'\t' ||
                        !utf8_is_control((uint32_t)character);
        if (is_shown && !is_second)
            fits = paste_add(&paste, character, reader->options.bytes_max) && fits;
    }
    const size_t mark = sizeof PASTE_END / sizeof(wchar_t) - 3; /* "[201" was taken for text */
    if (got == 1 && paste.n >= mark)
        paste.text[paste.n -= mark] = L'\0';
    assert(paste.text || paste.n == 0);
    while (paste.n > 0 && paste.text[paste.n - 1] == L'\n')
        paste.text[--paste.n] = L'\0';
    if (got == 1 && paste.n > 0 && el_winsertstr(edit, paste.text) != 0)
        fits = false;
    reader->is_too_long = reader->is_too_long || !fits;
    free(paste.text);
    return got == 1 ? CC_REFRESH : CC_EOF;
}

/* ---- lines ---- */

static enum line_end add_line(struct line_reader *reader, const char *line, size_t n)
{
    assert(reader->n <= reader->options.bytes_max);
    if (n > reader->options.bytes_max - reader->n)
        return LINE_TOO_LONG;
    char *longer = realloc(reader->text, reader->n + n + 2);
    if (!longer)
        return LINE_NO_MEMORY;
    reader->text = longer;
    memcpy(longer + reader->n, line, n);
    reader->n += n;
    longer[reader->n] = '\0';
    return LINE_READ;
}

/* One line, without its end; *continues_out: it ended in a backslash, which is a line feed now. */
static enum line_end read_line(struct line_reader *reader, bool *continues_out)
{
    int n = 0;
    reader->end = LINE_CLOSED;
    (void)el_set(reader->edit, EL_PREP_TERM,
                 1); /* libedit would show the prompt first, and lose what is typed then */
    const char *line = el_gets(reader->edit, &n);
    assert(reader->end != LINE_READ);
    if (!line || n <= 0)
        return reader->end;
    size_t length = (size_t)n;
    if (line[length - 1] == '\n')
        length--;
    *continues_out = length > 0 && line[length - 1] == '\\';
    enum line_end end = add_line(reader, line, *continues_out ? length - 1 : length);
    if (end == LINE_READ && *continues_out)
        end = add_line(reader, "\n", 1);
    return reader->is_too_long && end == LINE_READ ? LINE_TOO_LONG : end;
}

enum line_end line_reader_read(struct line_reader *reader, char **text_out, size_t *bytes_out)
{
    HistEvent event;
    bool continues = true;
    enum line_end end = LINE_READ;
    assert(!reader->text); /* the caller has the message before */
    reader->text = NULL;
    reader->n = 0;
    reader->is_too_long = false;
    terminal_input_begin();
    switch_paste(reader, PASTE_ON);
    while (end == LINE_READ && continues)
        end = read_line(reader, &continues);
    switch_paste(reader, PASTE_OFF);
    terminal_input_end();
    if (end != LINE_READ) {
        free(reader->text);
        reader->text = NULL;
        fputc('\n', stdout);
        (void)fflush(stdout);
        return end;
    }
    assert(reader->text);
    if (reader->n > 0)
        (void)history(reader->history, &event, H_ENTER, reader->text);
    *text_out = reader->text;
    *bytes_out = reader->n;
    reader->text = NULL;
    return LINE_READ;
}

/* ---- create ---- */

static void use_utf8(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        (void)setlocale(LC_CTYPE, "C.UTF-8");
}

static enum status open_edit(struct line_reader *reader)
{
    const char *kind = getenv("TERM");
    use_utf8();
    reader->knows_paste = kind && kind[0] && strcmp(kind, "dumb") != 0;
    reader->edit = el_init("kvferry", stdin, stdout, stderr);
    reader->history = history_init();
    if (!reader->edit || !reader->history)
        return STATUS_NO_MEMORY;
    HistEvent event;
    int lines = reader->options.history_lines ? (int)reader->options.history_lines : 1000;
    (void)history(reader->history, &event, H_SETSIZE, lines);
    (void)history(reader->history, &event, H_SETUNIQUE, 1);
    (void)el_set(reader->edit, EL_CLIENTDATA, reader);
    (void)el_set(reader->edit, EL_PROMPT, prompt_of);
    (void)el_set(reader->edit, EL_EDITOR, "emacs");
    (void)el_set(reader->edit, EL_HIST, history, reader->history);
    (void)el_set(reader->edit, EL_GETCFN, read_character);
    /* el_set would copy the texts, and lose them. */
    (void)el_wset(reader->edit, EL_ADDFN, L"kvferry-paste", L"insert a paste", take_paste);
    (void)el_set(reader->edit, EL_BIND, PASTE_BEGIN, "kvferry-paste", NULL);
    (void)el_set(reader->edit, EL_BIND, "^R", "em-inc-search-prev", NULL);
    return STATUS_OK;
}

static enum status open_history(struct line_reader *reader, struct error *error)
{
    if (reader->options.history_lines == 0)
        return STATUS_OK;
    enum status status = history_file_path(reader->path, error);
    if (status == STATUS_OK)
        status = history_file_read(reader->path, reader->history, error);
    if (status != STATUS_OK)
        reader->path[0] = '\0'; /* what cannot be read is not replaced */
    return status;
}

enum status line_reader_create(const struct line_reader_options *options,
                               struct line_reader **reader_out, struct error *error)
{
    assert(options->prompt && options->more_prompt && options->bytes_max > 0);
    struct line_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return STATUS_NO_MEMORY;
    reader->options = *options;
    enum status status = terminal_input_open(&reader->input, error);
    if (status != STATUS_OK) {
        free(reader);
        return status;
    }
    status = open_edit(reader);
    if (status != STATUS_OK) {
        (void)line_reader_destroy(reader, error);
        return status;
    }
    (void)open_history(reader, error); /* a chat goes on without it */
    *reader_out = reader;
    return STATUS_OK;
}

bool line_reader_destroy(struct line_reader *reader, struct error *error)
{
    if (!reader)
        return true;
    enum status status = STATUS_OK;
    assert(reader->history || !reader->path[0]);
    if (reader->path[0])
        status = history_file_write(reader->path, reader->history, error);
    if (reader->edit)
        el_end(reader->edit);
    if (reader->history)
        history_end(reader->history);
    terminal_input_close(&reader->input);
    free(reader);
    return status == STATUS_OK;
}
