/* history_file: what was typed is there again in the next chat, for its owner alone, and a file that is none is left as it is. */
#include "cli/chat/history_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], path[PATH_MAX];

static void begin(void)
{
    struct error error = {0};
    snprintf(folder, sizeof folder, "/tmp/history_XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    setenv("HOME", folder, 1);
    unsetenv("XDG_STATE_HOME");
    cr_assert_eq(history_file_path(path, &error), STATUS_OK, "%s", error.text);
}

static void end(void)
{
    static const char *const FOLDERS[] = {".local/state/kvferry", ".local/state", ".local", "."};
    (void)unlink(path);
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++) {
        char name[128];
        snprintf(name, sizeof name, "%s/%s", folder, FOLDERS[i]);
        cr_assert(rmdir(i == 3 ? folder : name) == 0, "%s is not empty", name);
    }
}

TestSuite(history_file, .init = begin, .fini = end);

static History *new_history(int size)
{
    HistEvent event;
    History *lines = history_init();
    cr_assert_not_null(lines);
    cr_assert_geq(history(lines, &event, H_SETSIZE, size), 0);
    return lines;
}

Test(history_file, lines_come_back_whole_and_the_oldest_go)
{
    static const char *const TYPED[] = {"one", "two\nlines\\", "h\xc3\xa9 three"};
    HistEvent event;
    struct error error = {0};
    struct stat about;
    History *first = new_history(10), *second = new_history(2);
    cr_assert_eq(history_file_read(path, first, &error), STATUS_OK, "a missing file is empty");
    for (size_t i = 0; i < 3; i++)
        cr_assert_geq(history(first, &event, H_ENTER, TYPED[i]), 0);
    cr_assert_eq(history_file_write(path, first, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(stat(path, &about), 0);
    cr_expect_eq(about.st_mode & 0777, 0600);
    cr_assert_eq(history_file_read(path, second, &error), STATUS_OK, "%s", error.text);
    cr_assert_geq(history(second, &event, H_FIRST), 0);
    cr_expect_str_eq(event.str, TYPED[2]);
    cr_assert_geq(history(second, &event, H_NEXT), 0);
    cr_expect_str_eq(event.str, TYPED[1]);
    cr_expect_lt(history(second, &event, H_NEXT), 0);
    history_end(first);
    history_end(second);
}

Test(history_file, a_file_that_is_no_history_is_refused)
{
    struct error error = {0};
    History *lines = new_history(10);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs("something else\n", file);
    fclose(file);
    cr_expect_eq(history_file_read(path, lines, &error), STATUS_CORRUPT);
    cr_expect(strstr(error.text, "chat_history is no history of a chat"), "%s", error.text);
    cr_assert_eq(truncate(path, HISTORY_FILE_BYTES_MAX + 1), 0);
    cr_expect_eq(history_file_read(path, lines, &error), STATUS_PROMPT_TOO_LONG);
    history_end(lines);
}

Test(history_file, its_place_is_that_of_xdg)
{
    char other[PATH_MAX];
    struct error error = {0};
    char state[128];
    snprintf(state, sizeof state, "%s/.local", folder);
    setenv("XDG_STATE_HOME", state, 1);
    cr_assert_eq(history_file_path(other, &error), STATUS_OK);
    cr_expect(strncmp(other, state, strlen(state)) == 0, "%s", other);
    cr_expect_str_eq(other + strlen(state), "/kvferry/chat_history");
    *strrchr(other, '/') = '\0';
    cr_assert_eq(rmdir(other), 0, "its folder was made");
    setenv("XDG_STATE_HOME", "relative", 1);
    setenv("HOME", "", 1);
    cr_expect_eq(history_file_path(other, &error), STATUS_NOT_FOUND);
}
