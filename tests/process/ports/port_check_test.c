/* port_check: an address that cannot be listened on is named with its row and the reason, and one that can
 * is free again afterwards. */
#include "process/ports/address.h"
#include "process/ports/port_check.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct port_given ALL = {.has_key = true, .is_insecure = true};
static const struct port_given INSECURE = {.is_insecure = true};
static const struct port_given KEY = {.has_key = true};
static const struct port_given NOTHING = {0};

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
    const struct port_row rows[] = {{"grpc_address", "127.0.0.1:0", true, PORT_USE_PUBLIC},
                                    {"health_address", "", false, PORT_USE_HEALTH},
                                    {"metrics_address", NULL, true, PORT_USE_METRICS},
                                    {"control_address", address, true, PORT_USE_CONTROL}};
    const size_t n = sizeof rows / sizeof *rows;
    enum status found = port_check(rows, n, &ALL, &error);
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
    struct port_row rows[] = {{"grpc_address", "127.0.0.1:50051", true, PORT_USE_PUBLIC},
                              {"control_address", "127.0.0.1:50051", true, PORT_USE_CONTROL}};
    cr_assert_eq(port_check(rows, 2, &ALL, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "grpc_address and control_address are both 127.0.0.1:50051");
    rows[0].address = rows[1].address = "127.0.0.1:0";
    cr_assert_eq(port_check(rows, 2, &ALL, &error), STATUS_OK);
}

Test(port_check, what_is_open_to_the_network_wants_to_be_asked_for)
{
    struct error error = {""};
    const struct port_row row = {"grpc_address", "0.0.0.0:0", true, PORT_USE_PUBLIC};
    cr_assert_eq(port_check(&row, 1, &NOTHING, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(strncmp(error.text, "grpc_address \"0.0.0.0:0\" is not a loopback address", 50), 0,
                 "%s", error.text);
    cr_assert_eq(port_check(&row, 1, &INSECURE, &error), STATUS_OK);
}

Test(port_check, a_health_port_that_stays_clear_wants_to_be_asked_for_too)
{
    struct error error = {""};
    const struct port_row health = {"health_address", "0.0.0.0:0", false, PORT_USE_HEALTH};
    const struct port_row public = {"grpc_address", "0.0.0.0:0", true, PORT_USE_PUBLIC};
    struct port_given given = {.has_tls = true};
    cr_expect_eq(port_check(&health, 1, &given, &error), STATUS_OK);
    given.has_clear_health = true;
    cr_expect_eq(port_check(&public, 1, &given, &error), STATUS_OK);
    cr_expect_eq(port_check(&health, 1, &given, &error), STATUS_INVALID_ARGUMENT);
    given.is_insecure = true;
    cr_expect_eq(port_check(&health, 1, &given, &error), STATUS_OK);
}

Test(port_check, a_port_of_gateways_is_clear_and_wants_to_be_asked_for)
{
    struct error error = {""};
    struct port_row row = {"engine_address", "0.0.0.0:0", false, PORT_USE_ENGINE};
    const struct port_given tls = {.has_tls = true, .has_key = true, .has_peer_tls = true};
    cr_expect_eq(port_check(&row, 1, &NOTHING, &error), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(port_check(&row, 1, &tls, &error), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, "engine_address \"0.0.0.0:0\" is not a loopback address") &&
                  strstr(error.text, "no tokens") && strstr(error.text, "--insecure"),
              "%s", error.text);
    cr_expect_eq(port_check(&row, 1, &INSECURE, &error), STATUS_OK);
    row.address = "127.0.0.1:0";
    cr_expect_eq(port_check(&row, 1, &NOTHING, &error), STATUS_OK);
    row.address = "";
    cr_expect_eq(port_check(&row, 1, &NOTHING, &error), STATUS_OK, "there need be none");
}

/* Everything that can be given, on every port from everywhere: a control port is never without a key. */
Test(port_check, a_control_port_of_a_network_needs_a_key_whatever_else_is_given)
{
    struct error error = {""};
    const struct port_row network = {"control_address", "0.0.0.0:0", true, PORT_USE_CONTROL};
    const struct port_row host = {"control_address", "127.0.0.1:0", true, PORT_USE_CONTROL};
    const struct port_given tls = {.has_tls = true, .is_insecure = true};
    const struct port_given clients_tls = {.has_key = true, .has_tls = true};
    const struct port_given key_and_tls = {.has_key = true, .has_peer_tls = true};
    cr_expect_eq(port_check(&network, 1, &NOTHING, &error), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(port_check(&network, 1, &INSECURE, &error), STATUS_INVALID_ARGUMENT);
    cr_expect(
        strstr(error.text,
               "control_address \"0.0.0.0:0\" is not a loopback address and needs a cluster_key"),
        "%s", error.text);
    cr_expect_eq(port_check(&network, 1, &tls, &error), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(port_check(&network, 1, &KEY, &error), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, "no TLS"), "%s", error.text);
    cr_expect_eq(port_check(&network, 1, &clients_tls, &error), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(port_check(&network, 1, &ALL, &error), STATUS_OK);
    cr_expect_eq(port_check(&network, 1, &key_and_tls, &error), STATUS_OK);
    cr_expect_eq(port_check(&host, 1, &NOTHING, &error), STATUS_OK);
}

static const struct {
    const char *one, *other;
    bool is_same;
} PAIRS[] = {
    {"0.0.0.0:7000", ":7000", true},
    {"localhost:7000", "127.0.0.1:7000", true},
    {"127.0.0.1:07000", "127.0.0.1:7000", true},
    {"[::]:7000", "127.0.0.1:7000", true},
    {"[::]:7000", "0.0.0.0:7000", true},
    {"[::1]:7000", "0.0.0.0:7000", true}, /* where gRPC takes IPv6 too */
    {"[::1]:7000", "[0:0:0:0:0:0:0:1]:7000", true},
    {"[::ffff:127.0.0.1]:7000", "127.0.0.1:7000", true},
    {"unix:/tmp/port", "unix:/tmp/port", true},
    {"127.0.0.1:7000", "127.0.0.2:7000", false},
    {"[::1]:7000", "127.0.0.1:7000", false},
    {"0.0.0.0:7000", ":7001", false},
    {"0.0.0.0:0", ":0", false},
    {"unix:/tmp/port", "unix:/tmp/other", false},
    {"unix:/tmp/port", ":7000", false},
    {"no-such-name.invalid:7000", "127.0.0.1:7000", false},
    {"no-such-name.invalid:7000", "no-such-name.invalid:7000", true},
};

Test(port_check, one_port_in_two_spellings_is_refused)
{
    for (size_t i = 0; i < sizeof PAIRS / sizeof *PAIRS; i++) {
        const struct port_row rows[] = {
            {"grpc_address", PAIRS[i].one, true, PORT_USE_PUBLIC},
            {"control_address", PAIRS[i].other, true, PORT_USE_CONTROL}};
        struct error error = {""};
        bool is_same = port_check(rows, 2, &ALL, &error) != STATUS_OK;
        cr_expect_eq(is_same, PAIRS[i].is_same, "%s and %s: %s", PAIRS[i].one, PAIRS[i].other,
                     error.text);
    }
    const struct port_row rows[] = {{"grpc_address", "0.0.0.0:7000", true, PORT_USE_PUBLIC},
                                    {"control_address", ":7000", true, PORT_USE_CONTROL}};
    struct error error = {""};
    cr_assert_eq(port_check(rows, 2, &ALL, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text,
                     "grpc_address 0.0.0.0:7000 and control_address :7000 are the same port");
}

Test(port_check, a_unix_socket_is_refused_where_none_is_taken)
{
    struct error error = {""};
    struct port_row row = {"metrics_address", "unix:/tmp/port", false, PORT_USE_METRICS};
    cr_assert_eq(port_check(&row, 1, &ALL, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "metrics_address \"unix:/tmp/port\" is a unix socket"),
                       "%s", error.text);
    row.use = PORT_USE_HEALTH;
    cr_assert_eq(port_check(&row, 1, &ALL, &error), STATUS_OK);
}
