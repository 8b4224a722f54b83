/* http_port under TLS: the same answers, who a client's certificate says it is, and what is no TLS gets a clear end. */

#include "base/clock.h"
#include "rpc/tls/tls_files.h"
#include "tests/api/support/http_bed.h"
#include "tests/rpc/support/certificates.h"

#include <criterion/criterion.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST "Host: x\r\n"
#define LAST "GET /hello HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"

static char folder[] = "/tmp/kvferry-http-tls-XXXXXX";
static struct tls_files *files;
static SSL_CTX *context;

static const struct http_answer_head OK_HEAD = {.code = 200};

static void open_files(const char *ca)
{
    const struct tls_files_options options = {
        .certificate = certificate_path(folder, "router", "pem"),
        .key = certificate_path(folder, "router", "key"),
        .ca = ca,
        .certificate_row = "tls_cert",
        .key_row = "tls_key",
        .ca_row = "tls_client_ca",
    };
    struct error error = {""};
    cr_assert_eq(tls_files_open(&options, &error, &files), STATUS_OK, "%s", error.text);
    http_bed.options.tls = files;
}

static void prepare(void)
{
    signal(SIGPIPE, SIG_IGN); /* as in every process: OpenSSL's sockets raise it */
    cr_assert_not_null(mkdtemp(folder));
    certificates_make_cluster(folder);
    context = SSL_CTX_new(TLS_client_method());
    http_bed_prepare();
}

static void finish(void)
{
    http_bed_stop();
    tls_files_close(files);
    SSL_CTX_free(context);
    certificates_remove(folder);
}

TestSuite(http_tls, .init = prepare, .fini = finish, .timeout = 120);

static void start(void)
{
    open_files("");
    http_bed_start();
}

/* protocols as ALPN has them; NULL: none. No handshake yet. */
static SSL *prepare_client(const char *protocols)
{
    SSL *ssl = SSL_new(context);
    cr_assert(ssl && SSL_set_fd(ssl, http_bed_connect(1)));
    if (protocols)
        cr_assert_eq(SSL_set_alpn_protos(ssl, (const uint8_t *)protocols, strlen(protocols)), 0);
    return ssl;
}

static SSL *connect_client(const char *protocols)
{
    SSL *ssl = prepare_client(protocols);
    cr_assert_eq(SSL_connect(ssl), 1, "%s", ERR_reason_error_string(ERR_peek_error()));
    return ssl;
}

static void end_client(SSL *ssl)
{
    close(SSL_get_fd(ssl));
    SSL_free(ssl);
    ERR_clear_error();
}

static void say(SSL *ssl, const char *text)
{
    cr_assert_eq(SSL_write(ssl, text, (int)strlen(text)), (int)strlen(text));
}

/* Until `until`, or the end; *is_clean_out: the server said that it is the end. The caller frees. */
static char *hear(SSL *ssl, const char *until, bool *is_clean_out)
{
    size_t n = 0, room = 1 << 16;
    char *text = calloc(1, room);
    int got = 1;
    while (got > 0 && (!until || !strstr(text, until))) {
        if (n + 1 == room) {
            text = realloc(text, room *= 2);
        }
        got = SSL_read(ssl, text + n, (int)(room - n - 1));
        n += got > 0 ? (size_t)got : 0;
        text[n] = '\0';
    }
    if (is_clean_out)
        *is_clean_out = SSL_get_error(ssl, got) == SSL_ERROR_ZERO_RETURN;
    return text;
}

static void expect_hello(SSL *ssl)
{
    bool is_clean;
    say(ssl, LAST);
    char *heard = hear(ssl, NULL, &is_clean);
    cr_expect(strstr(heard, "\r\n\r\nhello"), "%s", heard);
    cr_expect(is_clean);
    free(heard);
    end_client(ssl);
}

Test(http_tls, answers_whoever_offers_http_1_1_or_nothing)
{
    start();
    expect_hello(connect_client(NULL));
    expect_hello(connect_client("\x08http/1.1"));
    SSL *ssl = connect_client("\x02h2\x08http/1.1");
    const unsigned char *chosen;
    unsigned n;
    SSL_get0_alpn_selected(ssl, &chosen, &n);
    cr_expect(n == 8 && memcmp(chosen, "http/1.1", 8) == 0);
    expect_hello(ssl);
    cr_expect_eq(counter_value(http_bed.http_metrics.handshakes), 3);
}

Test(http_tls, who_speaks_another_protocol_gets_no_connection)
{
    start();
    SSL *ssl = prepare_client("\x02h2");
    cr_expect_neq(SSL_connect(ssl), 1);
    end_client(ssl);
    http_bed_wait_struck(HTTP_LIMIT_TLS, 1);
}

Test(http_tls, clear_text_hears_in_clear_text_what_is_wrong)
{
    start();
    http_bed_expect(LAST, 400, "this port speaks TLS");
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_TLS), 1);
}

Test(http_tls, rubbish_and_silence_end)
{
    http_bed.options.limits.handshake_ns = 200 * NS_PER_MS;
    start();
    int silent = http_bed_connect(1), rubbish = http_bed_connect(1), half = http_bed_connect(1);
    http_bed_say(rubbish, "rubbish");
    http_bed_say_bytes(half, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11);
    cr_expect(http_bed_is_closed(silent));
    cr_expect(http_bed_is_closed(half));
    free(http_bed_hear_all(rubbish));
    cr_expect_eq(http_bed_struck(HTTP_LIMIT_HANDSHAKE_TIME), 2);
    close(silent), close(rubbish), close(half);
}

Test(http_tls, a_clients_certificate_says_who_it_is)
{
    open_files(certificate_path(folder, "ca", "pem"));
    http_bed_start();
    SSL *ssl = prepare_client(NULL);
    if (SSL_connect(ssl) == 1) { /* as TLS 1.3 has it, the refusal comes behind it */
        char byte;
        cr_expect_leq(SSL_read(ssl, &byte, 1), 0);
    }
    end_client(ssl);
    ssl = prepare_client(NULL);
    cr_assert(SSL_use_certificate_file(ssl, certificate_path(folder, "operator", "pem"),
                                       SSL_FILETYPE_PEM));
    cr_assert(SSL_use_PrivateKey_file(ssl, certificate_path(folder, "operator", "key"),
                                      SSL_FILETYPE_PEM));
    cr_assert_eq(SSL_connect(ssl), 1);
    say(ssl, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    struct rpc_peer peer;
    http_exchange_peer_of(http_bed_held(0), &peer);
    cr_expect_str_eq(peer.identity, "kvferry://test/role/operator");
    cr_expect(peer.is_encrypted);
    end_client(ssl);
    http_bed_wait_ends(1);
}

Test(http_tls, a_certificate_that_was_replaced_is_shown_to_who_connects_next)
{
    start();
    SSL *before = connect_client(NULL);
    X509 *shown = SSL_get1_peer_certificate(before);
    const struct certificate renewed = {.name = "router",
                                        .issuer = "ca",
                                        .uri = "kvferry://test/role/router",
                                        .host = "localhost",
                                        .from_h = -2,
                                        .to_h = 48};
    certificate_make(folder, &renewed);
    cr_assert_eq(tls_files_look(files), TLS_LOOK_NEW);
    SSL *after = connect_client(NULL);
    X509 *shown_now = SSL_get1_peer_certificate(after);
    cr_expect_neq(X509_cmp(shown, shown_now), 0);
    X509_free(shown), X509_free(shown_now);
    expect_hello(before);
    expect_hello(after);
}

Test(http_tls, a_cut_stream_has_neither_last_chunk_nor_an_end_in_order)
{
    bool is_clean;
    start();
    SSL *ssl = connect_client(NULL);
    say(ssl, "GET /hold HTTP/1.1\r\n" HOST "\r\n");
    struct http_exchange *held = http_bed_held(0);
    cr_assert_eq(http_exchange_begin(held, &OK_HEAD), STATUS_OK);
    cr_assert_eq(http_exchange_send(held, "last words", 10), STATUS_OK);
    http_exchange_cut(held);
    char *heard = hear(ssl, NULL, &is_clean);
    cr_expect(strstr(heard, "last words"), "%s", heard);
    cr_expect_null(strstr(heard, "0\r\n\r\n"));
    cr_expect_not(is_clean);
    free(heard);
    end_client(ssl);
}

Test(http_tls, long_bodies_pass_both_ways_and_requests_ahead_wait)
{
    enum { BYTES = 3 << 20 };
    start();
    char *body = malloc(BYTES + 1), head[128];
    for (int i = 0; i < BYTES; i++)
        body[i] = (char)('a' + i % 23);
    body[BYTES] = '\0';
    SSL *ssl = connect_client(NULL);
    snprintf(head, sizeof head, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n", BYTES);
    say(ssl, head);
    say(ssl, body);
    say(ssl, "GET /items/ahead HTTP/1.1\r\n" HOST "\r\n" LAST);
    char *heard = hear(ssl, NULL, NULL);
    char *at = strstr(heard, "\r\n\r\n") + 4;
    cr_expect_eq(strncmp(at, body, BYTES), 0);
    cr_expect(strstr(at, "rest=ahead"));
    cr_expect(strstr(at, "hello"));
    free(heard);
    free(body);
    end_client(ssl);
}

Test(http_tls, who_asks_for_new_keys_without_end_is_cut_off)
{
    start();
    SSL *ssl = connect_client(NULL);
    bool is_open = true;
    for (int i = 0; i < 1000 && is_open; i++)
        is_open = SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1 &&
                  SSL_do_handshake(ssl) == 1;
    http_bed_wait_struck(HTTP_LIMIT_TLS, 1);
    end_client(ssl);
}
