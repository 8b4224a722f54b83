#include "base/config/config.h"
#include "base/config/config_value.h"

#include <assert.h>
#include <string.h>

enum { RANGE_BYTES = 100 };

const struct config_built_in CONFIG_BUILT_IN[] = {
    {"config", "FILE", "YAML file with the same keys (KVFERRY_CONFIG)"},
    {"print-config", NULL, "print each value in effect and where it comes from"},
    {"check-config", NULL, "only check whether the process would start"},
    {"strict-environment", NULL,
     "an unknown KVFERRY_* variable is an error (KVFERRY_STRICT_ENVIRONMENT)"},
    {"help", NULL, "print this text; also -h"},
    {NULL, NULL, NULL},
};

const char *config_value_name(const struct config_row *row)
{
    if (row->type == CONFIG_WORD)
        return row->words;
    return *row->unit ? row->unit : row->type == CONFIG_LIST ? "TEXT" : "VALUE";
}

void config_row_notes(const struct config_row *row, char notes_out[CONFIG_NOTES_BYTES])
{
    char variable[CONFIG_NAME_BYTES], range[RANGE_BYTES];
    bool has_range = config_value_range(row, range, sizeof range);
    config_variable_name(row->key, variable);
    snprintf(notes_out, CONFIG_NOTES_BYTES, "%s%s%s%s%s%s%s", has_range ? range : "",
             has_range ? "; " : "", row->type == CONFIG_LIST ? "may be repeated; " : "",
             *row->fallback ? "default " : "", row->fallback, *row->fallback ? "; " : "", variable);
}

static void print_row(const struct config_row *row, FILE *out)
{
    char flag[CONFIG_NAME_BYTES], notes[CONFIG_NOTES_BYTES];
    config_flag_name(row->key, flag);
    config_row_notes(row, notes);
    fprintf(out, "  %s", flag);
    if (row->type != CONFIG_BOOL)
        fprintf(out, " %s", config_value_name(row));
    fprintf(out, "\n        %s (%s)\n", row->help, notes);
}

/* Takes the next key of a group; false: no more. */
static bool next_key(const char **keys_inout, const char **key_out, size_t *length_out)
{
    *key_out = *keys_inout + strspn(*keys_inout, " ");
    *length_out = strcspn(*key_out, " ");
    *keys_inout = *key_out + *length_out;
    return *length_out > 0;
}

uint32_t config_shown_rows(const struct config_table *table, const struct config_program *program,
                           struct config_shown rows_out[CONFIG_ROWS_MAX])
{
    assert(table->n_rows <= CONFIG_ROWS_MAX);
    bool is_taken[CONFIG_ROWS_MAX] = {false};
    uint32_t n = 0;
    for (const struct config_group *group = program ? program->groups : NULL; group && group->title;
         group++) {
        const char *keys = group->keys, *key;
        size_t length;
        while (next_key(&keys, &key, &length)) {
            const struct config_row *row = config_find_row(table, key, length);
            if (!row || row->is_hidden || is_taken[row - table->rows])
                continue;
            is_taken[row - table->rows] = true;
            rows_out[n++] = (struct config_shown){group->title, row};
        }
    }
    for (uint32_t i = 0; i < table->n_rows; i++)
        if (!is_taken[i] && !table->rows[i].is_hidden)
            rows_out[n++] = (struct config_shown){"Flags", &table->rows[i]};
    assert(n <= table->n_rows); /* no row is listed twice */
    return n;
}

static void print_rows(const struct config_table *table, const struct config_program *program,
                       FILE *out)
{
    struct config_shown rows[CONFIG_ROWS_MAX];
    uint32_t n = config_shown_rows(table, program, rows);
    for (uint32_t i = 0; i < n; i++) {
        if (i == 0 || rows[i].title != rows[i - 1].title)
            fprintf(out, "\n%s\n", rows[i].title);
        print_row(rows[i].row, out);
    }
}

static void print_aliases(const struct config_table *table, FILE *out)
{
    if (table->aliases->flag)
        fputs("\nOther names\n", out);
    for (const struct config_alias *alias = table->aliases; alias->flag; alias++) {
        char flag[CONFIG_NAME_BYTES];
        config_flag_name(alias->key, flag);
        fprintf(out, "  %s%s\n        the same as %s\n", alias->flag[1] ? "--" : "-", alias->flag,
                flag);
    }
}

void config_print_help(const struct config_table *table, const struct config_input *input,
                       FILE *out)
{
    fprintf(out, "usage: %s [flags]%s%s\n", input->command, input->usage ? " " : "",
            input->usage ? input->usage : "");
    if (input->help)
        fprintf(out, "\n%s\n", input->help);
    if (input->examples)
        fprintf(out, "\nExamples\n%s", input->examples);
    print_rows(table, input->program, out);
    print_aliases(table, out);
    fputs("\nConfiguration\n", out);
    for (const struct config_built_in *flag = CONFIG_BUILT_IN; flag->flag; flag++)
        fprintf(out, "  --%s%s%s\n        %s\n", flag->flag, flag->value ? " " : "",
                flag->value ? flag->value : "", flag->help);
    fputs("\nA flag overrides its environment variable, a variable overrides the file, the file "
          "overrides the "
          "default.\n",
          out);
}
