/* TLS of a port and of the calls to it: who may connect, who may call what, and files that change. */
#include "tests/rpc/support/certificates.h"
#include "tests/rpc/support/probe.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LIFE 4711

static char folder[64];
static struct cluster_key *key;
static struct call_auth *auth;
static struct tls_files *files;
static struct rpc_server_options server;
static struct rpc_client_options client;
static struct rpc_client_tls client_tls;
static struct probe probe;
static struct relay_metrics relay_metrics;
static struct metrics *metrics;

static const char *path(const char *name, const char *suffix)
{
    return certificate_path(folder, name, suffix);
}

static void open_files(const char *name, const char *ca)
{
    const struct tls_files_options options = {
        .certificate = path(name, "pem"),
        .key = path(name, "key"),
        .ca = ca ? path(ca, "pem") : "",
        .certificate_row = "peer_certificate",
        .key_row = "peer_key",
        .ca_row = "peer_ca",
    };
    struct error error = {""};
    cr_assert_eq(tls_files_open(&options, &error, &files), STATUS_OK, "%s", error.text);
}

static void client_shows(const char *name)
{
    static char certificate[256], private_key[256];
    snprintf(certificate, sizeof certificate, "%s", name[0] ? path(name, "pem") : "");
    snprintf(private_key, sizeof private_key, "%s", name[0] ? path(name, "key") : "");
    client_tls.certificate = certificate;
    client_tls.key = private_key;
}

static void set_up(void)
{
    struct key_set keys = {.n = 1, .keys = {{7}}};
    signal(SIGPIPE, SIG_IGN); /* as in every process: OpenSSL's sockets raise it */
    snprintf(folder, sizeof folder, "/tmp/kvferry-tls-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    certificates_make_cluster(folder);
    cr_assert_eq(cluster_key_create(&keys, &key), STATUS_OK);
    const struct call_auth_options options = {.key = key, .life = LIFE, .nonces_max = 64};
    cr_assert_eq(call_auth_create(&options, &auth), STATUS_OK);
    cr_assert_eq(metrics_create("test", &metrics), STATUS_OK);
    relay_metrics_init(&relay_metrics, metrics);
    rpc_server_options_init(&server);
    server.auth = auth;
    server.cluster = "test";
    server.relay_metrics = &relay_metrics;
    rpc_client_options_init(&client);
    client.key = key;
    client.tls = &client_tls;
    client_tls.cluster = "test";
    static char ca[256];
    snprintf(ca, sizeof ca, "%s", path("ca", "pem"));
    client_tls.ca = ca;
    client_shows("generation");
}

static void tear_down(void)
{
    tls_files_close(files);
    call_auth_destroy(auth);
    cluster_key_destroy(key);
    metrics_destroy(metrics);
    certificates_remove(folder);
}

TestSuite(tls, .init = set_up, .fini = tear_down);

static void start(void)
{
    if (!files)
        open_files("context", "ca");
    server.tls = files;
    probe_start_secure(&probe, &server, &client);
}

static enum status call(struct rpc_error *error)
{
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    struct rpc_request request = probe_request("Echo", &ask.base, NULL);
    request.wait_for_ready = false;
    request.on_message = NULL;
    request.on_end = NULL;
    return rpc_channel_call_wait(probe.channel, &request, error);
}

/* The life is learnt first. */
static enum status echo(struct rpc_error *error)
{
    enum status status = call(error);
    return status == STATUS_STALE_PEER ? call(error) : status;
}

static void expect_unreachable(void)
{
    struct rpc_error error;
    start();
    cr_expect_eq(echo(&error), STATUS_PEER_LOST, "%s", error.message);
    cr_expect_eq(probe_last_call(&probe).request_id[0], '\0', "a handler ran");
    probe_stop(&probe);
}

Test(tls, both_ends_show_their_roles_and_the_handler_knows_who_calls)
{
    struct rpc_error error;
    start();
    cr_expect_eq(echo(&error), STATUS_OK, "%s", error.message);
    cr_expect_str_eq(probe_last_call(&probe).identity, "kvferry://test/role/generation");
    cr_expect_eq(counter_value(relay_metrics.handshakes), 1);
    probe_stop(&probe);
}

Test(tls, megabytes_pass_both_ways)
{
    struct outcome outcome;
    struct rpc_error error;
    server.call_buffer_bytes_max = 64u << 20;
    start();
    cr_assert_eq(echo(&error), STATUS_OK, "%s", error.message);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    static char text[900001];
    memset(text, 'x', sizeof text - 1);
    ask.text = text;
    ask.count = 12;
    ask.size = 3 << 20;
    outcome_init(&outcome);
    struct rpc_request request = probe_request("Count", &ask.base, &outcome);
    request.is_stream = true;
    cr_assert_eq(rpc_channel_start(probe.channel, &request, NULL), STATUS_OK);
    outcome_wait_end(&outcome);
    cr_expect_eq(outcome.error.status, STATUS_OK, "%s %s", outcome.error.field,
                 outcome.error.message);
    cr_expect_eq(outcome.n_messages, 12);
    cr_expect_eq(outcome.n_bytes, 12ull * (3 << 20));
    cr_expect(outcome.is_in_order);
    outcome_finish(&outcome);
    probe_stop(&probe);
}

Test(tls, a_role_calls_its_methods_only)
{
    static const char *const NAMES[] = {"router", "context", "operator"};
    struct rpc_error error;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        client_shows(NAMES[i]);
        start();
        cr_expect_eq(echo(&error), STATUS_NOT_ALLOWED, "%s: %s", NAMES[i], error.message);
        cr_expect_str_eq(probe_last_call(&probe).request_id, "", "a handler ran");
        probe_stop(&probe);
    }
}

Test(tls, who_shows_nothing_or_what_nobody_signed_is_not_let_in)
{
    certificate_make(
        folder, &(struct certificate){.name = "self", .uri = "kvferry://test/role/generation"});
    certificate_make(folder, &(struct certificate){.name = "other-ca", .is_ca = 1});
    certificate_make(folder, &(struct certificate){.name = "other",
                                                   .issuer = "other-ca",
                                                   .uri = "kvferry://test/role/generation"});
    certificate_make(folder, &(struct certificate){.name = "old",
                                                   .issuer = "ca",
                                                   .uri = "kvferry://test/role/generation",
                                                   .from_h = -48,
                                                   .to_h = -24});
    certificate_make(folder, &(struct certificate){.name = "early",
                                                   .issuer = "ca",
                                                   .uri = "kvferry://test/role/generation",
                                                   .from_h = 24,
                                                   .to_h = 48});
    static const char *const NAMES[] = {"self", "other", "old", "early"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        client_shows(NAMES[i]);
        expect_unreachable();
    }
    client_tls.cluster = NULL; /* by host name: shows none */
    client_shows("");
    expect_unreachable();
    client.tls = NULL; /* clear text */
    expect_unreachable();
    cr_expect_geq(counter_value(relay_metrics.struck[RELAY_LIMIT_TLS]), 6);
}

Test(tls, a_certificate_of_another_cluster_or_of_none_calls_nothing)
{
    certificate_make(folder, &(struct certificate){.name = "foreign",
                                                   .issuer = "ca",
                                                   .uri = "kvferry://other/role/generation"});
    certificate_make(folder, &(struct certificate){.name = "plain", .issuer = "ca"});
    certificate_make(folder, &(struct certificate){.name = "both",
                                                   .issuer = "ca",
                                                   .uri = "kvferry://test/role/router,"
                                                          "URI:kvferry://test/role/generation"});
    static const char *const NAMES[] = {"foreign", "plain", "both"};
    struct rpc_error error;
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++) {
        client_shows(NAMES[i]);
        start();
        cr_expect_eq(echo(&error), STATUS_NOT_ALLOWED, "%s: %s", NAMES[i], error.message);
        probe_stop(&probe);
    }
}

Test(tls, a_server_of_another_role_is_not_called)
{
    struct rpc_channel *channel;
    struct rpc_error error;
    start();
    cr_expect_eq(echo(&error), STATUS_OK, "%s", error.message);
    cr_assert_eq(rpc_channel_open_role(probe.client, probe.address,
                                       TLS_ROLE_BIT(ROUTER) | TLS_ROLE_BIT(GENERATION), &channel),
                 STATUS_OK);
    rpc_channel_close(probe.channel);
    probe.channel = channel;
    cr_expect_eq(echo(&error), STATUS_PEER_LOST, "%s", error.message);
    probe_stop(&probe);
}

Test(tls, a_server_that_nobody_signed_is_not_called)
{
    certificate_make(folder, &(struct certificate){.name = "self",
                                                   .uri = "kvferry://test/role/context",
                                                   .host = "127.0.0.1"});
    open_files("self", "ca");
    expect_unreachable();
}

Test(tls, without_a_cluster_a_server_is_known_by_its_host_name)
{
    struct rpc_error error;
    certificate_make(
        folder, &(struct certificate){.name = "elsewhere", .issuer = "ca", .host = "10.1.2.3"});
    client_tls.cluster = NULL;
    server.cluster = NULL;
    client_shows("");
    open_files("router", NULL);
    start();
    cr_expect_eq(echo(&error), STATUS_OK, "%s", error.message);
    cr_expect_str_eq(probe_last_call(&probe).identity, "");
    probe_stop(&probe);
    tls_files_close(files);
    open_files("elsewhere", NULL);
    expect_unreachable();
}

/* ---- files that change ---- */

Test(tls, changed_files_are_for_new_connections_and_open_streams_go_on)
{
    struct outcome outcome;
    struct rpc_error error;
    start();
    cr_assert_eq(echo(&error), STATUS_OK, "%s", error.message);
    Kvferry__Probe__Ask ask = KVFERRY__PROBE__ASK__INIT;
    outcome_init(&outcome);
    struct rpc_request request = probe_request("Hold", &ask.base, &outcome);
    cr_assert_eq(rpc_channel_start(probe.channel, &request, NULL), STATUS_OK);
    probe_wait_held(&probe, 1);

    certificate_make(folder, &(struct certificate){.name = "new-ca", .is_ca = 1});
    certificate_make(folder, &(struct certificate){.name = "generation",
                                                   .issuer = "new-ca",
                                                   .uri = "kvferry://test/role/generation"});
    cr_expect_eq(tls_files_look(files), TLS_LOOK_SAME);
    certificate_make(folder, &(struct certificate){.name = "context",
                                                   .issuer = "new-ca",
                                                   .uri = "kvferry://test/role/context"});
    cr_assert_eq(rename(path("new-ca", "pem"), path("ca", "pem")), 0);
    cr_expect_eq(tls_files_look(files), TLS_LOOK_NEW);
    cr_expect_eq(tls_files_look(files), TLS_LOOK_SAME);

    struct rpc_client *after;
    struct rpc_channel *channel;
    client_shows("generation");
    cr_assert_eq(rpc_client_create(probe.client_runtime, &client, &after), STATUS_OK);
    cr_assert_eq(rpc_channel_open(after, probe.address, &channel), STATUS_OK);
    struct rpc_channel *before = probe.channel;
    probe.channel = channel;
    cr_expect_eq(echo(&error), STATUS_OK, "%s", error.message);
    probe.channel = before;
    cr_expect_eq(outcome.n_ends, 0, "%s", outcome.error.message);
    cr_expect_eq(echo(&error), STATUS_OK, "%s", error.message);
    rpc_channel_close(channel);
    rpc_client_destroy(after);
    probe_stop_open(&probe, &outcome);
}

static void expect_failed_look(void)
{
    struct rpc_error error;
    cr_expect_eq(tls_files_look(files), TLS_LOOK_FAILED);
    cr_expect_eq(echo(&error), STATUS_OK, "%s", error.message);
}

Test(tls, files_that_do_not_fit_change_nothing)
{
    start();
    struct rpc_error error;
    cr_assert_eq(echo(&error), STATUS_OK, "%s", error.message);
    cr_assert_eq(rename(path("router", "key"), path("context", "key")), 0);
    expect_failed_look();
    cr_assert_eq(unlink(path("context", "pem")), 0);
    expect_failed_look();
    cr_assert_eq(truncate(path("ca", "pem"), 0), 0);
    expect_failed_look();
    probe_stop(&probe);
}

static void expect_refused(const char *certificate, const char *key_path, const char *ca,
                           const char *sentence)
{
    const struct tls_files_options options = {
        .certificate = certificate,
        .key = key_path,
        .ca = ca,
        .certificate_row = "tls_certificate",
        .key_row = "tls_key",
        .ca_row = "tls_client_ca",
    };
    struct error error = {""};
    struct tls_files *none;
    cr_expect_eq(tls_files_open(&options, &error, &none), STATUS_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(error.text, sentence), "%s", error.text);
}

Test(tls, files_that_cannot_be_used_are_refused_by_name)
{
    const char *good = path("router", "pem"), *good_key = path("router", "key"),
               *ca = path("ca", "pem");
    expect_refused("/nowhere.pem", good_key, ca,
                   "tls_certificate \"/nowhere.pem\": No such file or directory");
    expect_refused(good_key, good_key, ca, "tls_certificate");
    expect_refused(good, "/nowhere.key", ca, "tls_key \"/nowhere.key\": No such file");
    expect_refused(good, path("context", "key"), ca, "key values mismatch");
    expect_refused(good, good_key, "/dev/null", "tls_client_ca \"/dev/null\"");
}

/* ---- clients that are no gRPC ---- */

static int connect_raw(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(rpc_server_port(probe.server))};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct timeval limit = {.tv_sec = PROBE_WAIT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    cr_assert_eq(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* True: the other end ends it, and does not merely say nothing. */
static bool ends(int fd)
{
    char bytes[4096];
    ssize_t n;
    while ((n = recv(fd, bytes, sizeof bytes, 0)) > 0)
        ;
    return n == 0 || errno == ECONNRESET;
}

Test(tls, rubbish_half_a_hello_and_silence_end)
{
    uint8_t rubbish[5000];
    struct rpc_error error;
    server.relay.handshake_ns = 3 * NS_PER_S; /* also of the echo at the end, on a slow machine */
    start();
    for (size_t i = 0; i < sizeof rubbish; i++)
        rubbish[i] = (uint8_t)(i * 197 + 22);
    int fds[] = {connect_raw(), connect_raw(), connect_raw()};
    (void)!send(fds[0], rubbish, sizeof rubbish, MSG_NOSIGNAL);
    (void)!send(fds[1], "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11, MSG_NOSIGNAL);
    for (size_t i = 0; i < 3; i++) {
        cr_expect(ends(fds[i]), "%zu", i);
        close(fds[i]);
    }
    cr_expect_eq(counter_value(relay_metrics.struck[RELAY_LIMIT_TLS]), 1);
    cr_expect_eq(counter_value(relay_metrics.struck[RELAY_LIMIT_HANDSHAKE_TIME]), 2);
    cr_expect_eq(echo(&error), STATUS_OK, "%s", error.message);
    probe_stop(&probe);
}

static SSL *connect_tls(SSL_CTX *context, int fd, const char *protocol)
{
    SSL *ssl = SSL_new(context);
    cr_assert(ssl && SSL_set_fd(ssl, fd));
    cr_assert(SSL_use_certificate_file(ssl, path("generation", "pem"), SSL_FILETYPE_PEM));
    cr_assert(SSL_use_PrivateKey_file(ssl, path("generation", "key"), SSL_FILETYPE_PEM));
    if (protocol)
        cr_assert_eq(SSL_set_alpn_protos(ssl, (const uint8_t *)protocol, strlen(protocol)), 0);
    return ssl;
}

Test(tls, who_asks_for_new_keys_without_end_is_cut_off)
{
    start();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    int fd = connect_raw();
    SSL *ssl = connect_tls(context, fd, "\x02h2");
    cr_assert_eq(SSL_connect(ssl), 1);
    bool is_open = true;
    for (int i = 0; i < 1000 && is_open; i++)
        is_open = SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
                  SSL_do_handshake(ssl) == 1;
    cr_expect(ends(fd));
    cr_expect_geq(counter_value(relay_metrics.struck[RELAY_LIMIT_TLS]), 1);
    SSL_free(ssl);
    close(fd);
    SSL_CTX_free(context);
    probe_stop(&probe);
}

Test(tls, old_versions_and_other_protocols_are_refused)
{
    static const char *const PROTOCOLS[] = {NULL, "\x08http/1.1"};
    start();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    for (int i = 0; i < 3; i++) {
        int fd = connect_raw();
        SSL *ssl = connect_tls(context, fd, i < 2 ? PROTOCOLS[i] : "\x02h2");
        if (i == 2) {
            SSL_set_security_level(ssl, 0);
            cr_assert(SSL_set_max_proto_version(ssl, TLS1_1_VERSION));
            cr_assert(SSL_set_min_proto_version(ssl, TLS1_VERSION));
        }
        if (SSL_connect(ssl) == 1)
            cr_expect(ends(fd), "%d", i);
        SSL_free(ssl);
        close(fd);
    }
    uint64_t until_ns = probe_in_ms(PROBE_WAIT_S *
                                    1000); /* an alert may be read before it counts */
    while (counter_value(relay_metrics.struck[RELAY_LIMIT_TLS]) < 3 && clock_now_ns() < until_ns)
        (void)poll(NULL, 0, 2);
    cr_expect_eq(counter_value(relay_metrics.struck[RELAY_LIMIT_TLS]), 3);
    cr_expect_eq(counter_value(relay_metrics.handshakes), 0);
    SSL_CTX_free(context);
    probe_stop(&probe);
}

Test(tls, tls_1_2_is_taken)
{
    start();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    int fd = connect_raw();
    SSL *ssl = connect_tls(context, fd, "\x02h2");
    cr_assert(SSL_set_max_proto_version(ssl, TLS1_2_VERSION));
    cr_assert_eq(SSL_connect(ssl), 1);
    static const char HELLO[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0";
    char answer[9];
    cr_assert_eq(SSL_write(ssl, HELLO, sizeof HELLO), sizeof HELLO);
    cr_expect_eq(SSL_read(ssl, answer, sizeof answer), sizeof answer); /* SETTINGS */
    cr_expect_eq(answer[3], 4);
    SSL_free(ssl);
    close(fd);
    SSL_CTX_free(context);
    probe_stop(&probe);
}

Test(tls, handshakes_begin_so_many_a_second)
{
    enum { N = 6 };
    struct rpc_error error;
    server.relay.handshakes_per_s = 2; /* and 2 at once */
    start();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    int fds[N];
    SSL *ssls[N];
    for (int i = 0; i < N; i++) {
        fds[i] = connect_raw();
        ssls[i] = connect_tls(context, fds[i], "\x02h2");
    }
    uint64_t began_ns = clock_now_ns();
    for (int i = 0; i < N; i++)
        cr_expect_eq(SSL_connect(ssls[i]), 1);
    cr_expect_geq(clock_now_ns() - began_ns, 1900 * NS_PER_MS);
    for (int i = 0; i < N; i++) {
        SSL_free(ssls[i]);
        close(fds[i]);
    }
    SSL_CTX_free(context);
    (void)!echo(&error);
    probe_stop(&probe);
}
