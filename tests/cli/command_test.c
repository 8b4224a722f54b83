/* command: the headings of --help and the rows of the commands know each other. */
#include "cli/command.h"

#include <criterion/criterion.h>
#include <string.h>

static bool is_row_of_any(const char *key, size_t length)
{
    const struct command *command;
    for (uint32_t i = 0; (command = command_at(i)); i++)
        if (command->table && config_find_row(command->table(), key, length))
            return true;
    return false;
}

Test(command, every_name_in_a_group_is_a_row)
{
    const struct config_group *group = command_program()->groups;
    for (; group->title; group++) {
        size_t length;
        for (const char *key = group->keys; *key; key += length + strspn(key + length, " ")) {
            length = strcspn(key, " ");
            cr_expect(is_row_of_any(key, length), "%s has %.*s, which no command has", group->title,
                      (int)length, key);
        }
    }
}

Test(command, every_row_is_in_a_group)
{
    const struct command *command;
    for (uint32_t i = 0; (command = command_at(i)); i++) {
        struct config_shown rows[CONFIG_ROWS_MAX];
        uint32_t n = command->table ? config_shown_rows(command->table(), command_program(), rows)
                                    : 0;
        for (uint32_t r = 0; r < n; r++)
            cr_expect_str_neq(rows[r].title, "Flags", "%s: %s has no group", command->name,
                              rows[r].row->key);
    }
}
