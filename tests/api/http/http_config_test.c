/* http_config: without a configuration the limits are those of http_limits_init, and the port needs what the gRPC port needs. */

#include "api/http/http_config.h"
#include "api/http/http_limits.h"
#include "process/ports/port_check.h"
#include "process/process_config.h"

#include <criterion/criterion.h>
#include <string.h>

#define HTTP_SAMPLE_CONFIG(X)                                                                      \
    PROCESS_CONFIG_ROWS(X)                                                                         \
    HTTP_CONFIG_ROWS(X)
#define HTTP_SAMPLE_ALIASES(X) X("http-idle", http_idle_ms)

#define MEMBERS(X)                                                                                 \
    X(connections_max)                                                                             \
    X(address_connections_max)                                                                     \
    X(address_connections_per_s)                                                                   \
    X(requests_max)                                                                                \
    X(address_requests_max)                                                                        \
    X(target_bytes_max)                                                                            \
    X(head_bytes_max)                                                                              \
    X(fields_max)                                                                                  \
    X(body_bytes_max)                                                                              \
    X(bodies_bytes_max)                                                                            \
    X(address_bodies_bytes_max)                                                                    \
    X(unsent_bytes_max)                                                                            \
    X(all_unsent_bytes_max)                                                                        \
    X(reply_bytes_max)                                                                             \
    X(handshake_ns)                                                                                \
    X(head_ns)                                                                                     \
    X(body_ns)                                                                                     \
    X(body_gap_ns)                                                                                 \
    X(idle_ns)                                                                                     \
    X(slow_reader_ns)                                                                              \
    X(keepalive_ns)                                                                                \
    X(quiet_ns)                                                                                    \
    X(handshakes_per_s)
#define SAME(member) cr_expect_eq(limits.member, defaults.member, #member);

CONFIG_DECLARE(http_sample_config, HTTP_SAMPLE_CONFIG);
CONFIG_DEFINE(http_sample_config, HTTP_SAMPLE_CONFIG, HTTP_SAMPLE_ALIASES)

static void load(char **words, int n, struct http_limits *limits_out)
{
    static const char *const NO_ENVIRONMENT[] = {NULL};
    const struct config_input input = {.command = "kvferry sample",
                                       .argc = n,
                                       .argv = words,
                                       .environment = (char *const *)NO_ENVIRONMENT};
    struct http_sample_config values;
    struct config *config;
    struct error error = {""};
    cr_assert_eq(config_load(http_sample_config_table(), &input, &values, &config, &error),
                 STATUS_OK, "%s", error.text);
    *limits_out = (struct http_limits)HTTP_LIMITS(&values);
    cr_assert(strcmp(limits_out->exempt, "") == 0);
    limits_out->exempt = NULL;
    config_destroy(config);
}

Test(http_config, without_words_the_limits_are_the_defaults)
{
    struct http_limits limits, defaults;
    http_limits_init(&defaults);
    defaults.exempt = NULL;
    load(NULL, 0, &limits);
    MEMBERS(SAME)
}

Test(http_config, a_row_reaches_its_limit)
{
    char *words[] = {"--http-idle-ms",      "3s", "--http-fields-max", "9",
                     "--message-bytes-max", "1M", "--http-comment-ms", "2s"};
    struct http_limits limits;
    load(words, 8, &limits);
    cr_expect_eq(limits.idle_ns, 3 * NS_PER_S);
    cr_expect_eq(limits.quiet_ns, 2 * NS_PER_S);
    cr_expect_eq(limits.fields_max, 9);
    cr_expect_eq(limits.body_bytes_max, 1 << 20);
}

Test(http_config, beyond_a_loopback_the_port_needs_tls_or_a_word_of_the_operator)
{
    struct port_row row = {"http_address", "0.0.0.0:0", false, PORT_USE_PUBLIC};
    struct port_given given = {.has_tls = false};
    struct error error = {""};
    cr_expect_eq(port_check(&row, 1, &given, &error), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(error.text, "http_address \"0.0.0.0:0\""), "%s", error.text);
    given.is_insecure = true;
    cr_expect_eq(port_check(&row, 1, &given, &error), STATUS_OK, "%s", error.text);
    given = (struct port_given){.has_tls = true};
    cr_expect_eq(port_check(&row, 1, &given, &error), STATUS_OK, "%s", error.text);
    row.address = "127.0.0.1:0";
    given = (struct port_given){.has_tls = false};
    cr_expect_eq(port_check(&row, 1, &given, &error), STATUS_OK, "%s", error.text);
}
