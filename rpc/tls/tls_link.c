#include "rpc/tls/tls_link.h"

#include "rpc/tls/tls_certificate.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HANDSHAKE_BYTES_MAX (64u << 10) /* from a client: hello and certificates */
#define KEY_UPDATES_MAX     64u         /* per connection; each costs a computation and an answer */
#define OUT_KEPT_BYTES      (4u << 10)

struct bytes {
    uint8_t *bytes;
    size_t at, n, room;
};

struct tls_link {
    SSL *ssl;
    enum tls_protocol protocol;
    struct bytes in;
    struct bytes out;
    size_t handshake_bytes;
    uint32_t n_key_updates;
    bool is_done;
    bool has_ended;
    char failure[120];
};

/* ---- OpenSSL's memory buffers ---- */

static bool append(struct bytes *to, const void *bytes, size_t n)
{
    assert(to->at <= to->n && to->n <= to->room);
    if (to->at == to->n)
        to->at = to->n = 0;
    if (to->n + n > to->room) {
        size_t room = to->n + n > 2 * to->room ? to->n + n : 2 * to->room;
        uint8_t *grown = realloc(to->bytes, room);
        if (!grown)
            return false;
        to->bytes = grown;
        to->room = room;
    }
    memcpy(to->bytes + to->n, bytes, n);
    to->n += n;
    return true;
}

static void forget(struct bytes *from, size_t room_max)
{
    from->at = from->n = 0;
    if (from->room <= room_max)
        return;
    free(from->bytes);
    *from = (struct bytes){0};
}

static int read_in(BIO *bio, char *to, size_t n_max, size_t *n_out)
{
    struct tls_link *link = BIO_get_data(bio);
    size_t n = link->in.n - link->in.at;
    BIO_clear_retry_flags(bio);
    if (n == 0) {
        BIO_set_retry_read(bio);
        return 0;
    }
    n = n < n_max ? n : n_max;
    memcpy(to, link->in.bytes + link->in.at, n);
    link->in.at += n;
    *n_out = n;
    return 1;
}

static int write_out(BIO *bio, const char *bytes, size_t n, size_t *n_out)
{
    struct tls_link *link = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (!append(&link->out, bytes, n))
        return 0;
    *n_out = n;
    return 1;
}

static long control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static BIO_METHOD *method;
static pthread_once_t method_once = PTHREAD_ONCE_INIT;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tls link");
    if (method && BIO_meth_set_read_ex(method, read_in) &&
        BIO_meth_set_write_ex(method, write_out) && BIO_meth_set_ctrl(method, control))
        return;
    BIO_meth_free(method);
    method = NULL;
}

/* Counts key updates, which a client may send only a limited number of. */
static void on_message(int is_written, int version, int type, const void *bytes, size_t n, SSL *ssl,
                       void *arg)
{
    (void)version, (void)arg;
    struct tls_link *link = SSL_get_app_data(ssl);
    if (!is_written && type == SSL3_RT_HANDSHAKE && n > 0 &&
        *(const uint8_t *)bytes == SSL3_MT_KEY_UPDATE)
        link->n_key_updates++;
}

/* ---- a link ---- */

enum status tls_link_create(struct tls_files *files, enum tls_protocol protocol,
                            struct tls_link **link_out)
{
    (void)pthread_once(&method_once, make_method);
    struct tls_link *link = calloc(1, sizeof *link);
    if (!link || !method) {
        free(link);
        return STATUS_NO_MEMORY;
    }
    SSL_CTX *context = tls_files_context(files);
    BIO *bio = BIO_new(method);
    link->ssl = SSL_new(context);
    SSL_CTX_free(context);
    if (!bio || !link->ssl) {
        BIO_free(bio);
        tls_link_destroy(link);
        return STATUS_NO_MEMORY;
    }
    BIO_set_data(bio, link);
    BIO_set_init(bio, 1);
    SSL_set_bio(link->ssl, bio, bio);
    SSL_set_app_data(link->ssl, link);
    link->protocol = protocol;
    tls_files_set_protocol(link->ssl, protocol);
    SSL_set_msg_callback(link->ssl, on_message);
    SSL_set_accept_state(link->ssl);
    *link_out = link;
    return STATUS_OK;
}

void tls_link_destroy(struct tls_link *link)
{
    if (!link)
        return;
    SSL_free(link->ssl);
    free(link->in.bytes);
    free(link->out.bytes);
    free(link);
}

bool tls_link_feed(struct tls_link *link, const uint8_t *bytes, size_t n)
{
    if (!link->is_done) {
        link->handshake_bytes += n;
        if (link->handshake_bytes > HANDSHAKE_BYTES_MAX)
            return false;
    }
    return append(&link->in, bytes, n);
}

/* words NULL: uses OpenSSL's text. */
static enum tls_progress fail(struct tls_link *link, const char *words)
{
    long verified = SSL_get_verify_result(link->ssl);
    unsigned long code = ERR_peek_error();
    if (!words && verified != X509_V_OK)
        words = X509_verify_cert_error_string(verified);
    if (!words && code)
        words = ERR_reason_error_string(code);
    snprintf(link->failure, sizeof link->failure, "%s",
             words ? words : "the received bytes are not TLS");
    ERR_clear_error();
    link->has_ended = true;
    return TLS_FAILED;
}

/* Classifies a call that returned no bytes. */
static enum tls_progress judge(struct tls_link *link, int result)
{
    int error = SSL_get_error(link->ssl, result);
    if (error == SSL_ERROR_ZERO_RETURN)
        return fail(link, "");
    if (error != SSL_ERROR_WANT_READ)
        return fail(link, NULL);
    return link->n_key_updates > KEY_UPDATES_MAX ? fail(link, "too many key updates") : TLS_MORE;
}

static bool has_h2(const SSL *ssl)
{
    const unsigned char *chosen;
    unsigned int bytes;
    SSL_get0_alpn_selected(ssl, &chosen, &bytes);
    return bytes == 2 && memcmp(chosen, "h2", 2) == 0;
}

enum tls_progress tls_link_handshake(struct tls_link *link)
{
    assert(!link->is_done && !link->has_ended);
    ERR_clear_error();
    int result = SSL_do_handshake(link->ssl);
    if (result != 1)
        return judge(link, result);
    if (link->protocol == TLS_H2 && !has_h2(link->ssl))
        return fail(link, "the client does not offer h2 (ALPN)");
    link->is_done = true;
    return TLS_DONE;
}

enum tls_progress tls_link_read(struct tls_link *link, uint8_t *bytes_out, size_t n_max,
                                size_t *n_out)
{
    assert(link->is_done && n_max >= TLS_PLAIN_MAX);
    *n_out = 0;
    ERR_clear_error();
    while (n_max - *n_out >= TLS_PLAIN_MAX) {
        size_t n = 0;
        int result = SSL_read_ex(link->ssl, bytes_out + *n_out, n_max - *n_out, &n);
        if (result != 1) {
            enum tls_progress progress = judge(link, result);
            if (link->in.at == link->in.n)
                forget(&link->in, 0);
            return progress;
        }
        *n_out += n;
    }
    return TLS_DONE;
}

bool tls_link_write(struct tls_link *link, const uint8_t *bytes, size_t n)
{
    assert(link->is_done);
    ERR_clear_error();
    if (link->has_ended || n == 0)
        return !link->has_ended;
    size_t n_written = 0;
    return SSL_write_ex(link->ssl, bytes, n, &n_written) == 1 && n_written == n;
}

void tls_link_end(struct tls_link *link)
{
    if (link->has_ended || !link->is_done)
        return;
    ERR_clear_error();
    (void)SSL_shutdown(link->ssl);
    ERR_clear_error();
    link->has_ended = true;
}

size_t tls_link_output(struct tls_link *link, const uint8_t **bytes_out)
{
    *bytes_out = link->out.bytes;
    return link->out.n;
}

void tls_link_sent(struct tls_link *link)
{
    forget(&link->out, OUT_KEPT_BYTES);
}

void tls_link_uris(const struct tls_link *link, struct tls_uris *uris_out)
{
    assert(link->is_done);
    uris_out->n = 0;
    const X509 *certificate = SSL_get0_peer_certificate(link->ssl);
    if (certificate && SSL_get_verify_result(link->ssl) == X509_V_OK)
        tls_certificate_uris(certificate, uris_out);
}

const char *tls_link_failure(const struct tls_link *link)
{
    return link->failure;
}
