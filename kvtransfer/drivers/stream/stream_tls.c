#include "kvtransfer/drivers/stream/stream_tls.h"

#include "base/secret.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* A piece and its head in records of 16 KiB. Larger gains nothing. */
#define DATA_BUFFER_BYTES      (PIECE_BYTES_MAX + 16u * 1024)
#define HANDSHAKE_BUFFER_BYTES (8u * 1024)
/* Two records. With one, each record costs two system calls; eight cost more copies. */
#define READ_AHEAD_BYTES 34000u

#define IDENTITY_PREFIX "kvferry1-"
enum { IDENTITY_BYTES = sizeof IDENTITY_PREFIX - 1 + 16 };

/* The only cipher suite. The key's hash must be the suite's hash. */
static const char SUITE[] = "TLS_AES_128_GCM_SHA256";
static const uint8_t SUITE_NUMBER[] = {0x13, 0x01};

struct tls_context {
    SSL_CTX *accepting, *connecting;
    BIO_METHOD *socket;
    tls_find_key find;
};

struct tls_session {
    struct tls_context *context;
    SSL *ssl;
    int fd;
    bool is_accepting;
    void *arg;
    uint64_t reader_incarnation;
    uint8_t key[TLS_KEY_BYTES]; /* until the handshake has ended */
    uint8_t identity[IDENTITY_BYTES + 1];
    uint8_t *out; /* [out_max] bytes of records, [out_sent, out_end) not yet sent */
    size_t out_max, out_sent, out_end;
};

/* ---- keys ---- */

enum status tls_key_derive(const uint8_t owner_secret[TRANSPORT_SECRET_BYTES],
                           const uint8_t reader_secret[TRANSPORT_SECRET_BYTES],
                           uint64_t reader_incarnation, uint8_t key_out[TLS_KEY_BYTES])
{
    uint8_t secrets[2 * TRANSPORT_SECRET_BYTES];
    char info[64];
    char digest[] = "SHA256";
    int info_bytes = snprintf(info, sizeof info, "kvferry kv data port %016" PRIx64,
                              reader_incarnation);
    assert(info_bytes > 0 &&
           (size_t)info_bytes < sizeof info); /* a key of less than all would be weaker */
    memcpy(secrets, owner_secret, TRANSPORT_SECRET_BYTES);
    memcpy(secrets + TRANSPORT_SECRET_BYTES, reader_secret, TRANSPORT_SECRET_BYTES);
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, secrets, sizeof secrets),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, (size_t)info_bytes),
        OSSL_PARAM_construct_end()};
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *context = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    bool is_derived = context && EVP_KDF_derive(context, key_out, TLS_KEY_BYTES, params) == 1;
    EVP_KDF_CTX_free(context);
    EVP_KDF_free(kdf);
    secret_wipe(secrets, sizeof secrets);
    return is_derived ? STATUS_OK : STATUS_BUG;
}

/* Makes the session object by which OpenSSL takes an external key. NULL: no memory. */
static SSL_SESSION *key_as_session(struct tls_session *session)
{
    const SSL_CIPHER *cipher = SSL_CIPHER_find(session->ssl, SUITE_NUMBER);
    SSL_SESSION *made = SSL_SESSION_new();
    if (made && cipher && SSL_SESSION_set1_master_key(made, session->key, TLS_KEY_BYTES) &&
        SSL_SESSION_set_cipher(made, cipher) &&
        SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION))
        return made;
    SSL_SESSION_free(made);
    return NULL;
}

static void write_identity(struct tls_session *session)
{
    snprintf((char *)session->identity, sizeof session->identity, IDENTITY_PREFIX "%016" PRIx64,
             session->reader_incarnation);
}

static int use_key(SSL *ssl, const EVP_MD *digest, const unsigned char **identity_out,
                   size_t *bytes_out, SSL_SESSION **key_out)
{
    struct tls_session *session = SSL_get_app_data(ssl);
    (void)digest; /* there is one suite */
    assert(session && !session->is_accepting);
    *key_out = key_as_session(session);
    *identity_out = session->identity;
    *bytes_out = IDENTITY_BYTES;
    return *key_out != NULL;
}

static bool parse_identity(const unsigned char *identity, size_t bytes, uint64_t *incarnation_out)
{
    size_t prefix = sizeof IDENTITY_PREFIX - 1;
    if (bytes != IDENTITY_BYTES || memcmp(identity, IDENTITY_PREFIX, prefix) != 0)
        return false;
    uint64_t incarnation = 0;
    for (size_t i = prefix; i < bytes; i++) {
        const char *digits = "0123456789abcdef";
        const char *digit = identity[i] ? strchr(digits, identity[i]) : NULL;
        if (!digit)
            return false;
        incarnation = incarnation << 4 | (uint64_t)(digit - digits);
    }
    *incarnation_out = incarnation;
    return true;
}

/* Handles the identity in a stranger's first bytes. 0 ends the handshake. */
static int find_key(SSL *ssl, const unsigned char *identity, size_t bytes, SSL_SESSION **key_out)
{
    struct tls_session *session = SSL_get_app_data(ssl);
    *key_out = NULL;
    assert(session && session->is_accepting);
    if (!parse_identity(identity, bytes, &session->reader_incarnation) ||
        !session->context->find(session->arg, session->reader_incarnation, session->key))
        return 0;
    *key_out = key_as_session(session);
    return *key_out != NULL;
}

/* ---- the socket, as OpenSSL sees it ---- */

static int socket_read(BIO *bio, char *to, size_t bytes, size_t *done)
{
    const struct tls_session *session = BIO_get_data(bio);
    ssize_t n;
    do
        n = recv(session->fd, to, bytes, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        BIO_set_retry_read(bio);
    *done = n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* 1: all was sent. */
static int send_gathered(struct tls_session *session)
{
    while (session->out_sent < session->out_end) {
        ssize_t n = send(session->fd, session->out + session->out_sent,
                         session->out_end - session->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? TLS_LATER : TLS_LOST;
        session->out_sent += (size_t)n;
    }
    assert(session->out_sent == session->out_end);
    session->out_sent = session->out_end = 0;
    return 1;
}

static int socket_write(BIO *bio, const char *from, size_t bytes, size_t *done)
{
    struct tls_session *session = BIO_get_data(bio);
    int sent = session->out_end == session->out_max ? send_gathered(session) : 1;
    BIO_clear_retry_flags(bio);
    *done = 0;
    if (sent != 1) {
        if (sent == TLS_LATER)
            BIO_set_retry_write(bio);
        return 0;
    }
    size_t room = session->out_max - session->out_end;
    assert(room > 0 && session->out_sent <= session->out_end);
    *done = bytes < room ? bytes : room;
    memcpy(session->out + session->out_end, from, *done);
    session->out_end += *done;
    return 1;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    struct tls_session *session = BIO_get_data(bio);
    (void)number, (void)pointer;
    if (command != BIO_CTRL_FLUSH)
        return 0;
    BIO_clear_retry_flags(bio);
    int sent = send_gathered(session);
    if (sent == TLS_LATER)
        BIO_set_retry_write(bio);
    return sent == 1 ? 1 : -1;
}

static BIO_METHOD *new_socket_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "kv data port");
    if (method && BIO_meth_set_read_ex(method, socket_read) &&
        BIO_meth_set_write_ex(method, socket_write) && BIO_meth_set_ctrl(method, socket_control))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* ---- contexts ---- */

static SSL_CTX *new_side(bool is_accepting)
{
    SSL_CTX *side = SSL_CTX_new(is_accepting ? TLS_server_method() : TLS_client_method());
    if (!side || !SSL_CTX_set_min_proto_version(side, TLS1_3_VERSION) ||
        !SSL_CTX_set_max_proto_version(side, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(side, SUITE) || !SSL_CTX_set_num_tickets(side, 0) ||
        !SSL_CTX_set1_groups_list(side, "X25519:P-256")) {
        SSL_CTX_free(side);
        return NULL;
    }
    SSL_CTX_set_mode(side, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_options(side, SSL_OP_NO_TICKET);
    SSL_CTX_set_session_cache_mode(side, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(side, 1);
    SSL_CTX_set_default_read_buffer_len(side, READ_AHEAD_BYTES);
    if (is_accepting) {
        SSL_CTX_set_psk_find_session_callback(side, find_key);
    } else {
        SSL_CTX_set_psk_use_session_callback(side, use_key);
        SSL_CTX_set_verify(side, SSL_VERIFY_PEER, NULL); /* no certificate will do */
    }
    return side;
}

enum status tls_context_create(tls_find_key find, struct tls_context **context_out,
                               struct error *error)
{
    struct tls_context *context = calloc(1, sizeof *context);
    if (!context)
        return STATUS_NO_MEMORY;
    context->find = find;
    context->accepting = new_side(true);
    context->connecting = new_side(false);
    context->socket = new_socket_method();
    if (context->accepting && context->connecting && context->socket) {
        *context_out = context;
        return STATUS_OK;
    }
    char reason[128];
    ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
    ERR_clear_error();
    tls_context_destroy(context);
    return error_set(error, STATUS_UNSUPPORTED, "OpenSSL cannot do TLS 1.3 with %s: %s", SUITE,
                     reason);
}

void tls_context_destroy(struct tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->accepting);
    SSL_CTX_free(context->connecting);
    BIO_meth_free(context->socket);
    free(context);
}

/* ---- sessions ---- */

static enum status create_session(struct tls_context *context, int fd, bool is_accepting,
                                  struct tls_session **session_out)
{
    assert(fd >= 0);
    struct tls_session *session = calloc(1, sizeof *session);
    if (!session)
        return STATUS_NO_MEMORY;
    *session = (struct tls_session){
        .context = context,
        .fd = fd,
        .is_accepting = is_accepting,
        .out_max = HANDSHAKE_BUFFER_BYTES,
        .out = malloc(HANDSHAKE_BUFFER_BYTES),
        .ssl = SSL_new(is_accepting ? context->accepting : context->connecting)};
    BIO *bio = BIO_new(context->socket);
    if (!session->out || !session->ssl || !bio) {
        BIO_free(bio);
        tls_session_destroy(session);
        return STATUS_NO_MEMORY;
    }
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(session->ssl, bio, bio);
    SSL_set_app_data(session->ssl, session);
    *session_out = session;
    return STATUS_OK;
}

enum status tls_session_accept(struct tls_context *context, int fd, void *arg,
                               struct tls_session **session_out)
{
    TRY(create_session(context, fd, true, session_out));
    (*session_out)->arg = arg;
    SSL_set_accept_state((*session_out)->ssl);
    return STATUS_OK;
}

enum status tls_session_connect(struct tls_context *context, int fd, uint64_t reader_incarnation,
                                const uint8_t key[TLS_KEY_BYTES], struct tls_session **session_out)
{
    TRY(create_session(context, fd, false, session_out));
    (*session_out)->reader_incarnation = reader_incarnation;
    memcpy((*session_out)->key, key, TLS_KEY_BYTES);
    write_identity(*session_out);
    SSL_set_connect_state((*session_out)->ssl);
    return STATUS_OK;
}

void tls_session_destroy(struct tls_session *session)
{
    if (!session)
        return;
    SSL_free(session->ssl);
    secret_wipe(session->key, sizeof session->key);
    free(session->out);
    free(session);
}

static int outcome(struct tls_session *session, int result)
{
    int code = SSL_get_error(session->ssl, result);
    if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
        return TLS_LATER;
    ERR_clear_error();
    return TLS_LOST;
}

int tls_session_handshake(struct tls_session *session)
{
    ERR_clear_error();
    int result = SSL_do_handshake(session->ssl);
    if (result != 1)
        return outcome(session, result);
    secret_wipe(session->key, sizeof session->key);
    if (!SSL_session_reused(session->ssl)) /* that is, by the key */
        return TLS_LOST;
    if (!session->is_accepting)
        return 1;
    /* From now on pieces go out. */
    uint8_t *larger = realloc(session->out, DATA_BUFFER_BYTES);
    if (!larger)
        return TLS_LOST;
    session->out = larger;
    session->out_max = DATA_BUFFER_BYTES;
    return 1;
}

uint64_t tls_session_reader(const struct tls_session *session)
{
    return session->reader_incarnation;
}

ssize_t tls_session_read(struct tls_session *session, void *to, size_t bytes)
{
    size_t n;
    ERR_clear_error();
    int result = SSL_read_ex(session->ssl, to, bytes, &n);
    return result == 1 ? (ssize_t)n : outcome(session, result);
}

ssize_t tls_session_write(struct tls_session *session, const void *from, size_t bytes)
{
    size_t n;
    ERR_clear_error();
    int result = SSL_write_ex(session->ssl, from, bytes, &n);
    return result == 1 ? (ssize_t)n : outcome(session, result);
}

int tls_session_flush(struct tls_session *session)
{
    return send_gathered(session);
}
