/* completion - prints the completion scripts of the shells, from the tables. */
#include "cli/print/reference.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef void (*row_printer)(const struct command *command, const struct config_row *row, FILE *out);

static void for_each_row(const struct command *command, row_printer print, FILE *out)
{
    struct config_shown rows[CONFIG_ROWS_MAX];
    uint32_t n = command->table ? config_shown_rows(command->table(), command_program(), rows) : 0;
    assert(n <= CONFIG_ROWS_MAX);
    for (uint32_t i = 0; i < n; i++)
        print(command, rows[i].row, out);
}

static void print_words(const char *words, FILE *out)
{
    for (; *words; words++)
        fputc(*words == '|' ? ' ' : *words, out);
}

static void print_names(FILE *out)
{
    const struct command *command;
    for (uint32_t i = 0; (command = command_at(i)); i++)
        if (!command->is_hidden)
            fprintf(out, "%s ", command->name);
    fputs("help", out);
}

/* Leaves out characters that end a single-quoted word or that are special in zsh's _arguments. */
static void print_quoted(const char *text, FILE *out)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

/* ---- bash ---- */

static void print_bash_values(const struct command *command, const struct config_row *row,
                              FILE *out)
{
    char flag[CONFIG_NAME_BYTES];
    if (row->type != CONFIG_WORD)
        return;
    config_flag_name(row->key, flag);
    fprintf(out, "    '%s %s') words='", command->name, flag);
    print_words(row->words, out);
    fputs("' ;;\n", out);
}

static void print_bash_flag(const struct command *command, const struct config_row *row, FILE *out)
{
    char flag[CONFIG_NAME_BYTES];
    (void)command;
    config_flag_name(row->key, flag);
    fprintf(out, "%s ", flag);
    if (row->type == CONFIG_BOOL)
        fprintf(out, "--no-%s ", flag + 2);
}

static void print_bash(FILE *out)
{
    const struct command *command;
    fputs(
        "# bash completion of kvferry\n_kvferry() {\n"
        "    local current=${COMP_WORDS[COMP_CWORD]} words=\n"
        "    if ((COMP_CWORD == 1)) || { ((COMP_CWORD == 2)) && [[ ${COMP_WORDS[1]} == help ]]; }; "
        "then\n        COMPREPLY=($(compgen -W '",
        out);
    print_names(out);
    fputs("' -- \"$current\"))\n        return\n    fi\n"
          "    case \"${COMP_WORDS[1]} ${COMP_WORDS[COMP_CWORD - 1]}\" in\n",
          out);
    for (uint32_t i = 0; (command = command_at(i)); i++)
        for_each_row(command, print_bash_values, out);
    fputs("    'completion completion') words='bash zsh fish' ;;\n    esac\n"
          "    if [[ ! $words && $current == -* ]]; then\n        case ${COMP_WORDS[1]} in\n",
          out);
    for (uint32_t i = 0; (command = command_at(i)); i++) {
        if (!command->table)
            continue;
        fprintf(out, "        %s) words='", command->name);
        for_each_row(command, print_bash_flag, out);
        for (const struct config_built_in *flag = CONFIG_BUILT_IN; flag->flag; flag++)
            fprintf(out, "--%s ", flag->flag);
        fputs("' ;;\n", out);
    }
    fputs("        esac\n    fi\n    if [[ $words ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n    else\n"
          "        COMPREPLY=($(compgen -f -- \"$current\"))\n    fi\n}\n"
          "complete -o filenames -F _kvferry kvferry\n",
          out);
}

/* ---- zsh ---- */

static void print_zsh_flag(const struct command *command, const struct config_row *row, FILE *out)
{
    char flag[CONFIG_NAME_BYTES];
    (void)command;
    config_flag_name(row->key, flag);
    fprintf(out, "            '%s%s%s[", row->type == CONFIG_LIST ? "*" : "", flag,
            row->type == CONFIG_BOOL ? "" : "=");
    print_quoted(row->help, out);
    fputc(']', out);
    if (row->type == CONFIG_WORD) {
        fputs(":word:(", out);
        print_words(row->words, out);
        fputc(')', out);
    } else if (row->type != CONFIG_BOOL) {
        fputc(':', out);
        print_quoted(config_value_name(row), out);
        fputs(":_files", out);
    }
    fputs("' \\\n", out);
}

static void print_zsh_command(const struct command *command, FILE *out)
{
    fprintf(out, "    %s)\n        _arguments \\\n", command->name);
    for_each_row(command, print_zsh_flag, out);
    for (const struct config_built_in *flag = CONFIG_BUILT_IN; flag->flag; flag++) {
        fprintf(out, "            '--%s%s[", flag->flag, flag->value ? "=" : "");
        print_quoted(flag->help, out);
        fprintf(out, "]%s' \\\n", flag->value ? ":file:_files" : "");
    }
    fputs("            '*:file:_files' ;;\n", out);
}

static void print_zsh(FILE *out)
{
    const struct command *command;
    fputs("#compdef kvferry\n_kvferry() {\n    local -a commands\n    commands=(\n", out);
    for (uint32_t i = 0; (command = command_at(i)); i++) {
        if (command->is_hidden)
            continue;
        fprintf(out, "        '%s:", command->name);
        print_quoted(command->summary, out);
        fputs("'\n", out);
    }
    fputs("        'help:says more of a command'\n    )\n"
          "    if ((CURRENT == 2)) || { ((CURRENT == 3)) && [[ $words[2] == help ]] }; then\n"
          "        _describe command commands\n        return\n    fi\n"
          "    shift words\n    ((CURRENT--))\n    case $words[1] in\n",
          out);
    for (uint32_t i = 0; (command = command_at(i)); i++)
        if (command->table)
            print_zsh_command(command, out);
    fputs("    completion) _values shell bash zsh fish ;;\n    esac\n}\n"
          "if [[ $funcstack[1] == _kvferry ]]; then\n    _kvferry \"$@\"\nelse\n"
          "    compdef _kvferry kvferry\nfi\n",
          out);
}

/* ---- fish ---- */

static void print_fish_text(const char *text, FILE *out)
{
    for (; *text; text++)
        fprintf(out, *text == '\'' || *text == '\\' ? "\\%c" : "%c", *text);
}

static void print_fish_flag(const struct command *command, const struct config_row *row, FILE *out)
{
    char flag[CONFIG_NAME_BYTES];
    config_flag_name(row->key, flag);
    fprintf(out, "complete -c kvferry -n '__fish_seen_subcommand_from %s' -l %s", command->name,
            flag + 2);
    if (row->type == CONFIG_WORD) {
        fputs(" -x -a '", out);
        print_words(row->words, out);
        fputc('\'', out);
    } else if (row->type != CONFIG_BOOL) {
        fputs(" -r", out);
    }
    fputs(" -d '", out);
    print_fish_text(row->help, out);
    fputs("'\n", out);
}

static void print_fish(FILE *out)
{
    const struct command *command;
    fputs("# fish completion of kvferry\n", out);
    for (uint32_t i = 0; (command = command_at(i)); i++) {
        if (command->is_hidden)
            continue;
        fprintf(out, "complete -c kvferry -n __fish_use_subcommand -f -a %s -d '", command->name);
        print_fish_text(command->summary, out);
        fputs("'\n", out);
    }
    fputs("complete -c kvferry -n __fish_use_subcommand -f -a help -d 'says more of a command'\n"
          "complete -c kvferry -n '__fish_seen_subcommand_from help' -f -a '",
          out);
    print_names(out);
    fputs("'\ncomplete -c kvferry -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh "
          "fish'\n",
          out);
    for (uint32_t i = 0; (command = command_at(i)); i++)
        for_each_row(command, print_fish_flag, out);
    for (const struct config_built_in *flag = CONFIG_BUILT_IN; flag->flag; flag++) {
        fprintf(out, "complete -c kvferry -l %s%s -d '", flag->flag, flag->value ? " -r" : "");
        print_fish_text(flag->help, out);
        fputs("'\n", out);
    }
}

bool completion_print(const char *shell, FILE *out)
{
    if (strcmp(shell, "bash") == 0)
        print_bash(out);
    else if (strcmp(shell, "zsh") == 0)
        print_zsh(out);
    else if (strcmp(shell, "fish") == 0)
        print_fish(out);
    else
        return false;
    return true;
}
