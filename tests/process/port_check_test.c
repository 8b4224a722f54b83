/* port_check: an address that cannot be listened on is named with its row and the reason, and one that can
 * is free again afterwards. */
#include "process/address.h"
#include "process/port_check.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int listen_somewhere(char address_out[32])
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof any;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&any, bytes), 0);
    cr_assert_eq(listen(fd, 1), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&any, &bytes), 0);
    snprintf(address_out, 32, "127.0.0.1:%u", ntohs(any.sin_port));
    return fd;
}

static void expect(const char *address, enum status status, const char *sentence)
{
    struct error error = {""};
    const struct port_row rows[] = {{"grpc_address", "127.0.0.1:0", true},
                                    {"health_address", "", false},
                                    {"metrics_address", NULL, true},
                                    {"control_address", address, true}};
    const size_t n = sizeof rows / sizeof *rows;
    enum status found = port_check(rows, n, true, &error);
    if (found == STATUS_OK)
        found = port_check_free(rows, n, &error);
    cr_expect_eq(found, status, "%s: %s", address, error.text);
    cr_expect_str_eq(error.text, sentence);
}

Test(port_check, says_row_address_and_reason)
{
    char taken[32], sentence[96];
    int fd = listen_somewhere(taken);
    snprintf(sentence, sizeof sentence, "control_address %s: Address already in use", taken);
    expect(taken, STATUS_IO_FAILED, sentence);
    close(fd);
    expect(taken, STATUS_OK, "");
    expect(taken, STATUS_OK, ""); /* it was given back */
    expect("203.0.113.7:50051", STATUS_IO_FAILED,
           "control_address 203.0.113.7:50051: Cannot assign requested address");
    expect("50051", STATUS_INVALID_ARGUMENT, "control_address: address \"50051\": no port");
    expect("127.0.0.1:0", STATUS_OK, "");
    expect("unix:/nowhere/socket", STATUS_OK, "");
}

Test(port_check, one_port_for_two_rows_is_refused)
{
    struct error error = {""};
    struct port_row rows[] = {{"grpc_address", "127.0.0.1:50051", true},
                              {"control_address", "127.0.0.1:50051", true}};
    cr_assert_eq(port_check(rows, 2, true, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "grpc_address and control_address are both 127.0.0.1:50051");
    rows[0].address = rows[1].address = "127.0.0.1:0";
    cr_assert_eq(port_check(rows, 2, true, &error), STATUS_OK);
}

Test(port_check, what_is_open_to_the_network_wants_to_be_asked_for)
{
    struct error error = {""};
    const struct port_row row = {"grpc_address", "0.0.0.0:0", true};
    cr_assert_eq(port_check(&row, 1, false, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(strncmp(error.text, "grpc_address \"0.0.0.0:0\" is no loopback", 39), 0, "%s",
                 error.text);
    cr_assert_eq(port_check(&row, 1, true, &error), STATUS_OK);
}
