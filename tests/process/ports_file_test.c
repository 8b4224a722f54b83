/* ports_file: what is written is read again, and half a file is no file. */
#include "process/ports_file.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
                          .metrics = "127.0.0.1:4"};
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
    unlink(path);
    rmdir(folder);
}

Test(ports_file, half_a_file_is_refused)
{
    char folder[64], path[96];
    path_in(folder, path);
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file);
    fputs("{\n  \"role\": \"router\",\n  \"pid\": 12", file);
    fclose(file);
    struct ports ports;
    cr_assert_eq(ports_file_read(path, &ports), STATUS_CORRUPT);
    unlink(path);
    rmdir(folder);
}

Test(ports_file, a_folder_that_is_not_there_is_said)
{
    struct ports ports = {.role = "router"};
    struct error error = {0};
    cr_assert_eq(ports_file_write("/no-such-folder/ports", &ports, &error), STATUS_IO_FAILED);
    cr_assert_not_null(strstr(error.text, "/no-such-folder/ports"));
}
