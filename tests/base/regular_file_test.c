/* regular_file: what is no regular file of the folder is refused by name, and holds nobody. */
#include "base/regular_file.h"
#include "tests/base/support/folder.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A test's own folder; the working directory, so that names in it are short. */
static char folder[] = P_tmpdir "/regular-file-XXXXXX";

static void enter(void)
{
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
}

static void leave(void)
{
    folder_remove(folder);
}

TestSuite(regular_file, .init = enter, .fini = leave, .timeout = 30);

static void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    cr_assert_eq(fclose(file), 0);
}

static void expect_text(const char *name, const char *expected)
{
    char *text;
    size_t bytes;
    struct error error = {""};
    cr_assert_eq(regular_file_read_in(folder, name, 100, &text, &bytes, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(bytes, strlen(expected));
    cr_assert_str_eq(text, expected);
    free(text);
}

static void expect_refused(enum status status, const struct error *error, enum status expected,
                           const char *name, const char *why)
{
    cr_expect_eq(status, expected, "%s: %s: %s", name, status_name(status), error->text);
    cr_expect(strstr(error->text, name) && strstr(error->text, why), "%s, %s: %s", name, why,
              error->text);
}

/* By its path and, where it is one of the folder, as that. */
static void expect_no_file(const char *path, const char *why)
{
    char *text = NULL;
    size_t bytes;
    struct error error = {""};
    enum status status = regular_file_read(path, 100, &text, &bytes, &error);
    expect_refused(status, &error, STATUS_CORRUPT, path, why);
    if (path[0] != '/') {
        status = regular_file_read_in(folder, path, 100, &text, &bytes, &error);
        expect_refused(status, &error, STATUS_CORRUPT, path, why);
    }
    cr_expect_null(text);
}

Test(regular_file, is_read_whole_up_to_the_limit)
{
    char text[102] = "";
    write_text("empty", "");
    expect_text("empty", "");
    write_text("file", "a\nb");
    expect_text("file", "a\nb");
    memset(text, 'x', 100);
    write_text("full", text);
    expect_text("full", text);
    text[100] = 'x';
    write_text("large", text);
    expect_no_file("large", "has 101 bytes, more than the limit of 100");
}

Test(regular_file, a_fifo_a_device_a_folder_is_refused_at_once)
{
    cr_assert_eq(mkfifo("fifo", 0600), 0);
    cr_assert_eq(mkdir("folder", 0700), 0);
    expect_no_file("fifo", "not a regular file");
    expect_no_file("folder", "not a regular file");
    expect_no_file("/dev/zero", "not a regular file");
    expect_no_file("/dev/null", "not a regular file");
}

Test(regular_file, a_socket_and_what_is_not_there_are_said)
{
    char *text = NULL;
    size_t bytes;
    struct error error = {""};
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(descriptor, (struct sockaddr *)&address, sizeof address), 0);
    expect_refused(regular_file_read("socket", 100, &text, &bytes, &error), &error,
                   STATUS_IO_FAILED, "socket", "No such device");
    close(descriptor);
    expect_refused(regular_file_read_in(folder, "none", 100, &text, &bytes, &error), &error,
                   STATUS_NOT_FOUND, "none", "No such file");
    expect_refused(regular_file_read_in("no-folder", "none", 100, &text, &bytes, &error), &error,
                   STATUS_NOT_FOUND, "no-folder", "No such file");
}

Test(regular_file, a_link_is_followed_within_the_folder_alone)
{
    char *text;
    size_t bytes;
    struct error error = {""};
    write_text("file", "inside");
    cr_assert_eq(symlink("file", "near"), 0);
    expect_text("near", "inside");
    cr_assert_eq(mkdir("..2026", 0700), 0); /* as a mounted ConfigMap has them */
    write_text("..2026/key", "below");
    cr_assert_eq(symlink("..2026", "..data"), 0);
    cr_assert_eq(symlink("..data/key", "key"), 0);
    expect_text("key", "below");
    char beside[sizeof folder + 8];
    snprintf(beside, sizeof beside, "%s-beside", folder); /* begins with the folder's name */
    write_text(beside, "beside");
    cr_assert_eq(symlink(beside, "beside"), 0);
    expect_refused(regular_file_read_in(folder, "beside", 100, &text, &bytes, &error), &error,
                   STATUS_CORRUPT, "beside", "a link out of the model's folder");
    cr_assert_eq(unlink(beside), 0);
    cr_assert_eq(symlink("/etc/passwd", "far"), 0);
    expect_refused(regular_file_read_in(folder, "far", 1 << 20, &text, &bytes, &error), &error,
                   STATUS_CORRUPT, "far", "a link out of the model's folder");
    cr_assert_eq(regular_file_read("near", 100, &text, &bytes, &error), STATUS_OK);
    free(text);
    static const char *const NAMES[] = {"", ".", "..", "../x", "folder/x"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        expect_refused(regular_file_read_in(folder, NAMES[i], 100, &text, &bytes, &error), &error,
                       STATUS_CORRUPT, NAMES[i], "not a plain file name");
}

Test(regular_file, a_new_file_takes_the_place_of_no_device)
{
    struct error error = {""};
    write_text("old", "text");
    cr_assert_eq(symlink("old", "link"), 0);
    cr_assert_eq(mkfifo("fifo", 0600), 0);
    cr_expect_eq(regular_file_check_place("new", &error), STATUS_OK, "%s", error.text);
    cr_expect_eq(regular_file_check_place("old", &error), STATUS_OK, "%s", error.text);
    cr_expect_eq(regular_file_check_place("link", &error), STATUS_OK, "%s", error.text);
    static const char *const NAMES[] = {"fifo", ".", "/dev/null"};
    for (size_t i = 0; i < 3; i++)
        expect_refused(regular_file_check_place(NAMES[i], &error), &error, STATUS_IO_FAILED,
                       NAMES[i], "cannot be written: it is not a regular file");
}
