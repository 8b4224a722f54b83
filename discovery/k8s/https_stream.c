#include "discovery/k8s/https_stream.h"

#include "base/clock.h"
#include "discovery/k8s/fd_wait.h"
#include "discovery/k8s/host_lookup.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECT_LIMIT_NS     (3 * NS_PER_S) /* one address of several */
#define KEEPALIVE_IDLE_S     15
#define KEEPALIVE_INTERVAL_S 5
#define KEEPALIVE_PROBES     3

struct https_stream {
    const char *host; /* of the options; while opening only */
    int stop_fd;
    int fd; /* -1: none */
    SSL_CTX *context;
    SSL *ssl;
};

/* ---- TCP ---- */

static int new_socket(const struct addrinfo *address)
{
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    address->ai_protocol);
    const struct {
        int level, name, value;
    } OPTIONS[] = {
        {SOL_SOCKET, SO_KEEPALIVE, 1},
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
        {IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
    };
    for (size_t i = 0; fd >= 0 && i < sizeof OPTIONS / sizeof *OPTIONS; i++)
        (void)setsockopt(fd, OPTIONS[i].level, OPTIONS[i].name, &OPTIONS[i].value, sizeof(int));
    return fd;
}

/* 0, or why not, as errno has it; ECANCELED: stop. */
static int connect_socket(int fd, const struct addrinfo *address, int stop_fd, uint64_t until_ns)
{
    int failed = 0;
    socklen_t bytes = sizeof failed;
    if (connect(fd, address->ai_addr, address->ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    enum status status = fd_wait(fd, POLLOUT, stop_fd, until_ns);
    if (status != STATUS_OK)
        return status == STATUS_CANCELLED ? ECANCELED : ETIMEDOUT;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &bytes) == 0 ? failed : errno;
}

static enum status connect_one_of(struct https_stream *stream, const struct addrinfo *found,
                                  uint64_t until_ns, struct error *error)
{
    int failed = EADDRNOTAVAIL;
    for (const struct addrinfo *at = found; at; at = at->ai_next) {
        assert(stream->fd < 0 && "one try at a time");
        uint64_t limit_ns = at->ai_next ? clock_earlier(until_ns, clock_now_ns() + CONNECT_LIMIT_NS)
                                        : until_ns;
        stream->fd = new_socket(at);
        failed = stream->fd >= 0 ? connect_socket(stream->fd, at, stream->stop_fd, limit_ns)
                                 : errno;
        if (failed == 0)
            return STATUS_OK;
        if (stream->fd >= 0)
            close(stream->fd);
        stream->fd = -1;
        if (failed == ECANCELED)
            return error_set(error, STATUS_CANCELLED, "%.200s: stopped", stream->host);
    }
    return error_set(error, failed == ETIMEDOUT ? STATUS_TIMED_OUT : STATUS_PEER_LOST,
                     "%.200s cannot be connected to: %s", stream->host, strerror(failed));
}

static enum status connect_host(struct https_stream *stream, struct host_lookup *lookup,
                                uint64_t until_ns, struct error *error)
{
    struct addrinfo *found;
    TRY(host_lookup_run(lookup, stream->stop_fd, until_ns, &found, error));
    enum status status = connect_one_of(stream, found, until_ns, error);
    freeaddrinfo(found);
    return status;
}

/* ---- TLS ---- */

/* PEM may hold several; the text between them is passed over. */
static enum status add_ca(X509_STORE *store, const char *ca, size_t bytes, struct error *error)
{
    X509 *certificate;
    uint32_t n = 0;
    BIO *text = bytes <= INT_MAX ? BIO_new_mem_buf(ca, (int)bytes) : NULL;
    if (!text)
        return STATUS_NO_MEMORY;
    while ((certificate = PEM_read_bio_X509(text, NULL, NULL, NULL))) {
        n += X509_STORE_add_cert(store, certificate) == 1;
        X509_free(certificate);
    }
    BIO_free(text);
    ERR_clear_error();
    return n > 0 ? STATUS_OK
                 : error_set(error, STATUS_CORRUPT, "the CA's file holds no certificate in PEM");
}

static enum status create_context(struct https_stream *stream,
                                  const struct https_stream_options *options, struct error *error)
{
    stream->context = SSL_CTX_new(TLS_client_method());
    if (!stream->context || !SSL_CTX_set_min_proto_version(stream->context, TLS1_2_VERSION))
        return STATUS_NO_MEMORY;
    SSL_CTX_set_verify(stream->context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_mode(stream->context, SSL_MODE_ENABLE_PARTIAL_WRITE);
    SSL_CTX_set_options(stream->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(stream->context, SSL_SESS_CACHE_OFF);
    return add_ca(SSL_CTX_get_cert_store(stream->context), options->ca, options->ca_bytes, error);
}

static bool expect_host(SSL *ssl, const char *host)
{
    uint8_t ip[16];
    X509_VERIFY_PARAM *parameters = SSL_get0_param(ssl);
    if (inet_pton(AF_INET, host, ip) == 1 || inet_pton(AF_INET6, host, ip) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(parameters, host) == 1;
    X509_VERIFY_PARAM_set_hostflags(parameters, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(parameters, host, 0) == 1 &&
           SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* Why the last call of the library did not do. STATUS_OK: it may be called again. */
static enum status judge(struct https_stream *stream, int result, uint64_t until_ns,
                         struct error *error)
{
    int system_error = errno;
    int code = SSL_get_error(stream->ssl, result);
    unsigned long reason = ERR_peek_error();
    ERR_clear_error();
    if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE) {
        short events = code == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT;
        enum status status = fd_wait(stream->fd, events, stream->stop_fd, until_ns);
        return status == STATUS_OK ? status : error_set(error, status, "%s", status_text(status));
    }
    const char *why = reason ? ERR_reason_error_string(reason) : NULL;
    if (!why)
        why = code == SSL_ERROR_SYSCALL && system_error ? strerror(system_error)
                                                        : "it was closed in the middle";
    return error_set(error, STATUS_PEER_LOST, "the connection is lost: %s", why);
}

static enum status shake_hands(struct https_stream *stream, uint64_t until_ns, struct error *error)
{
    for (;;) {
        ERR_clear_error();
        errno = 0;
        int result = SSL_connect(stream->ssl);
        if (result == 1)
            return STATUS_OK;
        long verdict = SSL_get_verify_result(stream->ssl);
        if (verdict != X509_V_OK) {
            ERR_clear_error();
            return error_set(error, STATUS_UNAUTHENTICATED,
                             "the certificate of %.100s is refused: %s", stream->host,
                             X509_verify_cert_error_string(verdict));
        }
        TRY(judge(stream, result, until_ns, error));
    }
}

static enum status begin_tls(struct https_stream *stream,
                             const struct https_stream_options *options, uint64_t until_ns,
                             struct error *error)
{
    assert(stream->fd >= 0 && !stream->ssl && "connected, and nothing said yet");
    TRY(create_context(stream, options, error));
    stream->ssl = SSL_new(stream->context);
    if (!stream->ssl || !expect_host(stream->ssl, options->host) ||
        !SSL_set_fd(stream->ssl, stream->fd))
        return STATUS_NO_MEMORY;
    return shake_hands(stream, until_ns, error);
}

/* ---- the stream ---- */

enum status https_stream_open(const struct https_stream_options *options, uint64_t until_ns,
                              struct https_stream **stream_out, struct error *error)
{
    struct https_stream *stream = calloc(1, sizeof *stream);
    error_write(error, "%s", status_text(STATUS_NO_MEMORY)); /* unless there is more to say */
    if (!stream)
        return STATUS_NO_MEMORY;
    *stream = (struct https_stream){.fd = -1, .stop_fd = options->stop_fd, .host = options->host};
    enum status status = connect_host(stream, options->lookup, until_ns, error);
    if (status == STATUS_OK)
        status = begin_tls(stream, options, until_ns, error);
    if (status != STATUS_OK) {
        https_stream_close(stream);
        return status;
    }
    *stream_out = stream;
    return STATUS_OK;
}

void https_stream_close(struct https_stream *stream)
{
    if (!stream)
        return;
    SSL_free(stream->ssl);
    SSL_CTX_free(stream->context);
    if (stream->fd >= 0)
        close(stream->fd);
    free(stream);
}

enum status https_stream_write(struct https_stream *stream, const void *bytes, size_t n,
                               uint64_t until_ns, struct error *error)
{
    const char *at = bytes;
    while (n > 0) {
        size_t done = 0;
        ERR_clear_error();
        errno = 0;
        int result = SSL_write_ex(stream->ssl, at, n, &done);
        if (result != 1)
            TRY(judge(stream, result, until_ns, error));
        assert(done <= n);
        at += done;
        n -= done;
    }
    return STATUS_OK;
}

enum status https_stream_read(struct https_stream *stream, void *to, size_t n, uint64_t until_ns,
                              size_t *n_out, struct error *error)
{
    for (;;) {
        /* A server that always has something to say would be read past the time, and past stop. */
        if (fd_wait(-1, 0, stream->stop_fd, 0) == STATUS_CANCELLED)
            return error_set(error, STATUS_CANCELLED, "%s", status_text(STATUS_CANCELLED));
        if (clock_now_ns() >= until_ns)
            return error_set(error, STATUS_TIMED_OUT, "%s", status_text(STATUS_TIMED_OUT));
        *n_out = 0;
        ERR_clear_error();
        errno = 0;
        int result = SSL_read_ex(stream->ssl, to, n, n_out);
        if (result == 1 || SSL_get_error(stream->ssl, result) == SSL_ERROR_ZERO_RETURN)
            return STATUS_OK;
        TRY(judge(stream, result, until_ns, error));
    }
}
