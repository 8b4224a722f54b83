/* ports_file: what is written is read again, and half a file is no file. */
#include "process/ports/ports_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static void path_in(char folder[64], char path[96])
{
    snprintf(folder, 64, "/tmp/ports-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, 96, "%s/ports", folder);
}

Test(ports_file, is_read_as_it_was_written)
{
    char folder[64], path[96];
    path_in(folder, path);
    struct ports ports = {.role = "router",
                          .name = "a \"name\"",
                          .pid = 4711,
                          .incarnation = 0xfedcba9876543210u,
                          .is_ready = true,
                          .grpc = "127.0.0.1:1",
                          .control = "[::1]:2",
                          .metrics = "127.0.0.1:4",
                          .unseen = "ctx-worker [::1]:5: its model is x, not \"y\""};
    struct ports again;
    cr_assert_eq(ports_file_read(path, &again), STATUS_NOT_FOUND);
    cr_assert_eq(ports_file_write(path, &ports, NULL), STATUS_OK);
    cr_assert_eq(ports_file_read(path, &again), STATUS_OK);
    cr_assert_eq(again.pid, ports.pid);
    cr_assert_eq(again.incarnation, ports.incarnation);
    cr_assert(again.is_ready);
    cr_assert_str_eq(again.grpc, ports.grpc);
    cr_assert_str_eq(again.control, ports.control);
    cr_assert_str_eq(again.health, "");
    cr_assert_str_eq(again.metrics, ports.metrics);
    cr_assert_str_eq(again.unseen, ports.unseen);
    unlink(path);
    rmdir(folder);
}

#define BEHIND_NAME                                                                                \
    "\"pid\": 12, \"incarnation\": \"00f3\", \"ready\": true, \"grpc\": \"\", \"http\": \"\", "    \
    "\"engine\": \"\", \"control\": \"\", "                                                        \
    "\"health\": \"\", \"metrics\": \"\", \"unseen\": \"\"}"

static enum status read_text(const char *text, struct ports *ports_out)
{
    char folder[64], path[96];
    path_in(folder, path);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
    enum status status = ports_file_read(path, ports_out);
    unlink(path);
    rmdir(folder);
    return status;
}

/* Half of it, and what nobody but an enemy writes. */
static const char *const BAD[] = {
    "",
    "{\n  \"role\": \"router\",\n  \"pid\": 12",
    "{\"role\": \"router\\",
    "\"role\": \"router\\",
    "[]",
    "{\"role\": \"router\", \"name\": 3, " BEHIND_NAME,
    "{\"role\": \"router\", " BEHIND_NAME,
    "{\"role\": \"a role with a longer name than the thirty-two bytes\", \"name\": "
    "\"\", " BEHIND_NAME,
    "{\"role\": \"router\", \"role\": \"router\", \"name\": \"\", " BEHIND_NAME,
    "{\"pid\": -1, \"role\": \"router\", \"name\": \"\", \"incarnation\": \"00f3\", \"ready\": "
    "true, "
    "\"grpc\": \"\", \"http\": \"\", \"engine\": \"\", \"control\": \"\", \"health\": \"\", "
    "\"metrics\": \"\", "
    "\"unseen\": \"\"}",
};

Test(ports_file, what_no_process_writes_is_refused)
{
    struct ports ports;
    cr_assert_eq(read_text("{\"role\": \"router\", \"name\": \"\", " BEHIND_NAME, &ports),
                 STATUS_OK);
    cr_assert_eq(ports.pid, 12);
    cr_assert_eq(ports.incarnation, 0xf3);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        cr_expect_eq(read_text(BAD[i], &ports), STATUS_CORRUPT, "%s", BAD[i]);
    cr_expect_eq(read_text("{\"role\": \"router\", \"name\": \"\\u0000\", " BEHIND_NAME, &ports),
                 STATUS_UNSUPPORTED);
}

/* The last bytes that the buffer of a reader may have. */
Test(ports_file, a_long_file_that_ends_with_a_backslash_is_refused)
{
    static char text[16384];
    struct ports ports;
    for (size_t n = 4094; n < 4098; n++) {
        memset(text, ' ', sizeof text - 1);
        memcpy(text + n - 10, "\"role\": \"\\", 11);
        cr_expect_eq(read_text(text, &ports), STATUS_CORRUPT);
    }
    memset(text, ' ', sizeof text - 1);
    cr_expect_eq(read_text(text, &ports), STATUS_CORRUPT);
}

/* A text that was cut within a character must not keep a parent waiting for a file that it can read. */
Test(ports_file, a_text_that_is_no_utf8_is_written_so_that_it_can_be_read)
{
    char folder[64], path[96];
    path_in(folder, path);
    struct ports again, ports = {.role = "router", .name = "a\xc3", .unseen = "\xe2\x82\tx"};
    cr_assert_eq(ports_file_write(path, &ports, NULL), STATUS_OK);
    cr_assert_eq(ports_file_read(path, &again), STATUS_OK);
    cr_assert_str_eq(again.name, "a?");
    cr_assert_str_eq(again.unseen, "???x");
    unlink(path);
    rmdir(folder);
}

static mode_t kind_of(const char *path)
{
    struct stat stat;
    cr_assert_eq(lstat(path, &stat), 0, "%s is gone", path);
    return stat.st_mode & S_IFMT;
}

/* By name, and it stays what it was. */
static void expect_refused(const char *path, const char *what)
{
    struct ports ports = {.role = "router"};
    struct error error = {0};
    mode_t kind = kind_of(path);
    cr_assert_eq(ports_file_write(path, &ports, &error), STATUS_INVALID_ARGUMENT, "%s", what);
    cr_assert(strstr(error.text, path) && strstr(error.text, what), "%s: %s", what, error.text);
    cr_assert_eq(ports_file_check(path, &error), STATUS_INVALID_ARGUMENT, "%s", what);
    ports_file_remove(path);
    cr_assert_eq(kind_of(path), kind, "%s", what);
}

Test(ports_file, a_link_a_device_a_fifo_or_a_folder_is_not_replaced)
{
    char folder[64], path[96], other[96];
    path_in(folder, path);
    snprintf(other, sizeof other, "%s/other", folder);
    cr_assert_eq(mkfifo(path, 0600), 0);
    expect_refused(path, "no regular file");
    unlink(path);
    cr_assert_eq(mkdir(path, 0700), 0);
    expect_refused(path, "a folder");
    rmdir(path);
    fclose(fopen(other, "w"));
    cr_assert_eq(symlink(other, path), 0);
    expect_refused(path, "a link");
    unlink(path);
    cr_assert_eq(symlink("/nowhere/at/all", path), 0);
    expect_refused(path, "a link");
    unlink(path);
    if (mknod(path, S_IFCHR | 0600, makedev(1, 3)) == 0) /* root's */
        expect_refused(path, "no regular file");
    unlink(path);
    unlink(other);
    cr_assert_eq(rmdir(folder), 0, "something is left");
}

/* The name that is written first is known: nobody may lead it elsewhere. */
Test(ports_file, a_link_under_the_temporary_name_is_not_followed)
{
    char folder[64], path[96], temporary[128], other[96];
    struct stat stat;
    struct ports ports = {.role = "router"};
    path_in(folder, path);
    snprintf(temporary, sizeof temporary, "%s.%ld.new", path, (long)getpid());
    snprintf(other, sizeof other, "%s/other", folder);
    fclose(fopen(other, "w"));
    cr_assert_eq(symlink(other, temporary), 0);
    cr_assert_eq(ports_file_write(path, &ports, NULL), STATUS_OK);
    cr_assert_eq(kind_of(path), S_IFREG);
    cr_assert(lstat(other, &stat) == 0 && stat.st_size == 0, "was written through the link");
    ports_file_remove(path);
    unlink(other);
    cr_assert_eq(rmdir(folder), 0, "something is left");
}

Test(ports_file, a_folder_that_is_not_there_is_said)
{
    struct ports ports = {.role = "router"};
    struct error error = {0};
    cr_assert_eq(ports_file_write("/no-such-folder/ports", &ports, &error), STATUS_IO_FAILED);
    cr_assert_not_null(strstr(error.text, "/no-such-folder/ports"));
}
