/* manual - prints the man page of each command, from its table. */
#include "base/build_info.h"
#include "cli/print/reference.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* Text for troff: ASCII hyphens, and no line that troff takes for a request. */
static void print_text(const char *text, FILE *out)
{
    bool begins_line = true;
    for (; *text; text++) {
        if (begins_line && (*text == '.' || *text == '\''))
            fputs("\\&", out);
        if (*text == '-')
            fputs("\\-", out);
        else if (*text == '\\')
            fputs("\\e", out);
        else
            fputc(*text, out);
        begins_line = *text == '\n';
    }
}

static void print_head(const char *name, const char *summary, FILE *out)
{
    fputs(".TH ", out);
    for (const char *at = name; *at; at++)
        fprintf(out, *at == '-' ? "\\-" : "%c", toupper((unsigned char)*at));
    fprintf(out, " 1 \"\" \"kvferry %s\" \"User Commands\"\n.SH NAME\n", build_version());
    print_text(name, out);
    fputs(" \\- ", out);
    print_text(summary, out);
    fputc('\n', out);
}

static void print_row(const struct config_row *row, FILE *out)
{
    char flag[CONFIG_NAME_BYTES], notes[CONFIG_NOTES_BYTES];
    config_flag_name(row->key, flag);
    config_row_notes(row, notes);
    fputs(".TP\n.B ", out);
    print_text(flag, out);
    if (row->type != CONFIG_BOOL) {
        fputs(" \\fI", out);
        print_text(config_value_name(row), out);
        fputs("\\fR", out);
    }
    fputc('\n', out);
    print_text(row->help, out);
    fputs("\n(", out);
    print_text(notes, out);
    fputs(")\n", out);
}

/* Short flags; longer aliases are in --help alone. */
static void print_short(const struct config_table *table, FILE *out)
{
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++) {
        char flag[CONFIG_NAME_BYTES];
        if (alias->flag[1])
            continue;
        config_flag_name(alias->key, flag);
        fprintf(out, ".TP\n.B \\-%s\nThe same as ", alias->flag);
        print_text(flag, out);
        fputs(".\n", out);
    }
}

static void print_options(const struct command *command, FILE *out)
{
    struct config_shown rows[CONFIG_ROWS_MAX];
    uint32_t n = config_shown_rows(command->table(), command_program(), rows);
    fputs(".SH OPTIONS\nA flag overrides its environment variable, a variable overrides the file, "
          "the file overrides the default.\n",
          out);
    assert(n <= CONFIG_ROWS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || rows[i].title != rows[i - 1].title)
            fprintf(out, ".SS %s\n", rows[i].title);
        print_row(rows[i].row, out);
    }
    print_short(command->table(), out);
    fputs(".SS Configuration\n", out);
    for (const struct config_built_in *flag = CONFIG_BUILT_IN; flag->flag; flag++) {
        fputs(".TP\n.B \\-\\-", out);
        print_text(flag->flag, out);
        if (flag->value)
            fprintf(out, " \\fI%s\\fR", flag->value);
        fputc('\n', out);
        print_text(flag->help, out);
        fputc('\n', out);
    }
}

static void print_examples(const char *examples, FILE *out)
{
    fputs(".SH EXAMPLES\n.nf\n", out);
    print_text(examples, out);
    fputs(".fi\n", out);
}

static void print_end(FILE *out)
{
    fputs(".SH EXIT STATUS\n0: done; 1: it failed; 2: wrong arguments or configuration; 130: "
          "Ctrl-C; 143: SIGTERM; "
          "141: the reader of its output has gone.\n",
          out);
}

static void print_overview(FILE *out)
{
    const struct command *command;
    print_head("kvferry", "serves language models with prefill and decode in separate processes",
               out);
    fputs(".SH SYNOPSIS\n.B kvferry\n.I COMMAND\n[arguments]\n.SH COMMANDS\n", out);
    for (uint32_t i = 0; (command = command_at(i)); i++) {
        if (command->is_hidden)
            continue;
        fputs(".TP\n.B ", out);
        print_text(command->name, out);
        fputc('\n', out);
        print_text(command->summary, out);
        fputc('\n', out);
    }
    print_end(out);
}

void manual_print(const struct command *command, FILE *out)
{
    char name[64];
    if (!command) {
        print_overview(out);
        return;
    }
    int n = snprintf(name, sizeof name, "kvferry-%s", command->name);
    assert(n > 0 && (size_t)n < sizeof name);
    print_head(name, command->summary, out);
    fputs(".SH SYNOPSIS\n.B kvferry ", out);
    print_text(command->name, out);
    fprintf(out, "\n%s%s\n", command->table ? "[flags] " : "",
            command->usage ? command->usage : "");
    fputs(".SH DESCRIPTION\n", out);
    print_text(command->help, out);
    fputc('\n', out);
    if (command->table)
        print_options(command, out);
    print_end(out);
    if (command->examples)
        print_examples(command->examples, out);
    fputs(".SH SEE ALSO\n.BR kvferry (1)\n", out);
}
