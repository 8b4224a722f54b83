#include "rpc/tls/tls_files.h"

#include "base/log/log.h"
#include "base/regular_file.h"
#include "rpc/tls/tls_certificate.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define CIPHERS_1_2                                                                                \
    "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:"     \
    "ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305"
#define CHAIN_BYTES_MAX (32 << 10) /* of the certificates that a client may send */
#define CHAIN_DEPTH_MAX 6

enum tls_file { FILE_CERTIFICATE, FILE_KEY, FILE_CA, N_FILES };

struct tls_files {
    char *paths[N_FILES];
    const char *rows[N_FILES];
    struct stat seen[N_FILES];
    pthread_mutex_t mutex; /* of context */
    SSL_CTX *context;
};

void tls_process_init(void)
{
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

static enum status refuse(const struct tls_files *files, enum tls_file file, struct error *error)
{
    char reason[160];
    unsigned long code = ERR_peek_error();
    if (ERR_GET_LIB(code) == ERR_LIB_SYS || ERR_SYSTEM_ERROR(code)) {
        snprintf(reason, sizeof reason, "%s", strerror(ERR_GET_REASON(code)));
    } else {
        const char *words = ERR_reason_error_string(code);
        snprintf(reason, sizeof reason, "%s", words ? words : "it cannot be used");
    }
    ERR_clear_error();
    return error_set(error, STATUS_INVALID_ARGUMENT, "%s \"%s\": %s", files->rows[file],
                     files->paths[file], reason);
}

/* Returns no password, instead of asking at the terminal. */
static int no_password(char *buffer, int bytes, int is_writing, void *arg)
{
    (void)buffer, (void)bytes, (void)is_writing, (void)arg;
    return -1;
}

/* Where an SSL keeps its enum tls_protocol. */
static int protocol_index = -1;
static pthread_once_t protocol_once = PTHREAD_ONCE_INIT;

static void make_protocol_index(void)
{
    protocol_index = SSL_get_ex_new_index(0, NULL, NULL, NULL, NULL);
}

void tls_files_set_protocol(SSL *ssl, enum tls_protocol protocol)
{
    bool is_set = SSL_set_ex_data(ssl, protocol_index, (void *)(uintptr_t)protocol) == 1;
    assert((is_set || protocol == TLS_H2) && "room for a pointer was made with the context");
    (void)is_set;
}

static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *bytes_out,
                           const unsigned char *offered, unsigned int bytes, void *arg)
{
    static const unsigned char H2[] = {2, 'h', '2'};
    static const unsigned char HTTP_1_1[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
    (void)arg;
    bool is_h2 = (uintptr_t)SSL_get_ex_data(ssl, protocol_index) == TLS_H2;
    unsigned char *chosen;
    if (SSL_select_next_proto(&chosen, bytes_out, is_h2 ? H2 : HTTP_1_1,
                              is_h2 ? sizeof H2 : sizeof HTTP_1_1, offered,
                              bytes) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static void set_up(SSL_CTX *context)
{
    (void)pthread_once(&protocol_once, make_protocol_index);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION |
                                     SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE |
                                     SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_max_cert_list(context, CHAIN_BYTES_MAX);
    SSL_CTX_set_verify_depth(context, CHAIN_DEPTH_MAX);
    SSL_CTX_set_default_passwd_cb(context, no_password);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
}

static enum status load(const struct tls_files *files, SSL_CTX *context, struct error *error)
{
    const char *const *path = (const char *const *)files->paths;
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(context, path[FILE_CERTIFICATE]) != 1)
        return refuse(files, FILE_CERTIFICATE, error);
    if (SSL_CTX_use_PrivateKey_file(context, path[FILE_KEY], SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(context) != 1)
        return refuse(files, FILE_KEY, error);
    if (!path[FILE_CA][0])
        return STATUS_OK;
    if (SSL_CTX_load_verify_locations(context, path[FILE_CA], NULL) != 1)
        return refuse(files, FILE_CA, error);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return STATUS_OK;
}

static enum status create_context(const struct tls_files *files, struct error *error,
                                  SSL_CTX **context_out)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (!context)
        return STATUS_NO_MEMORY;
    set_up(context);
    enum status status = STATUS_OK;
    if (!SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) ||
        !SSL_CTX_set_cipher_list(context, CIPHERS_1_2) || !SSL_CTX_set_num_tickets(context, 0))
        status = error_set(error, STATUS_UNSUPPORTED, "this OpenSSL cannot do TLS 1.2 with %s",
                           CIPHERS_1_2);
    if (status == STATUS_OK)
        status = load(files, context, error);
    if (status != STATUS_OK) {
        SSL_CTX_free(context);
        return status;
    }
    *context_out = context;
    return STATUS_OK;
}

static void take_stats(const struct tls_files *files, struct stat stats_out[N_FILES])
{
    memset(stats_out, 0, N_FILES * sizeof *stats_out);
    for (int i = 0; i < N_FILES; i++)
        if (files->paths[i][0])
            (void)stat(files->paths[i], &stats_out[i]);
}

static void warn_of(const struct tls_files *files)
{
    X509 *own = SSL_CTX_get0_certificate(files->context);
    assert(own);
    if (files->seen[FILE_KEY].st_mode & (S_IRWXO | S_IWGRP))
        log_warn("%s %.200s: users outside its group can access it", files->rows[FILE_KEY],
                 files->paths[FILE_KEY]);
    if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0)
        log_warn("%s %.200s is no longer valid", files->rows[FILE_CERTIFICATE],
                 files->paths[FILE_CERTIFICATE]);
    if (X509_cmp_current_time(X509_get0_notBefore(own)) > 0)
        log_warn("%s %.200s is not valid yet", files->rows[FILE_CERTIFICATE],
                 files->paths[FILE_CERTIFICATE]);
}

enum status tls_files_open(const struct tls_files_options *options, struct error *error,
                           struct tls_files **files_out)
{
    assert(options->certificate && options->key && options->ca);
    struct tls_files *files = calloc(1, sizeof *files);
    if (!files)
        return STATUS_NO_MEMORY;
    const char *const paths[N_FILES] = {options->certificate, options->key, options->ca};
    const char *const rows[N_FILES] = {options->certificate_row, options->key_row, options->ca_row};
    pthread_mutex_init(&files->mutex, NULL);
    enum status status = STATUS_OK;
    for (int i = 0; i < N_FILES; i++) {
        files->rows[i] = rows[i];
        files->paths[i] = strdup(paths[i]);
        if (!files->paths[i])
            status = STATUS_NO_MEMORY;
    }
    if (status == STATUS_OK) {
        take_stats(files, files->seen); /* first: the next look sees a write in between */
        status = create_context(files, error, &files->context);
    }
    if (status != STATUS_OK) {
        tls_files_close(files);
        return status;
    }
    warn_of(files);
    *files_out = files;
    return STATUS_OK;
}

void tls_files_close(struct tls_files *files)
{
    if (!files)
        return;
    SSL_CTX_free(files->context);
    pthread_mutex_destroy(&files->mutex);
    for (int i = 0; i < N_FILES; i++)
        free(files->paths[i]);
    free(files);
}

enum tls_look tls_files_look(struct tls_files *files)
{
    struct stat now[N_FILES];
    bool is_same = true;
    take_stats(files, now);
    for (int i = 0; i < N_FILES; i++)
        is_same = is_same && regular_file_is_same(&now[i], &files->seen[i]);
    if (is_same)
        return TLS_LOOK_SAME;
    memcpy(files->seen, now, sizeof now);

    struct error error = {""};
    SSL_CTX *context;
    enum status status = create_context(files, &error, &context);
    if (status != STATUS_OK) {
        log_error("certificates stay as they were: %s",
                  error.text[0] ? error.text : status_text(status));
        return TLS_LOOK_FAILED;
    }
    pthread_mutex_lock(&files->mutex);
    SSL_CTX *old = files->context;
    files->context = context;
    pthread_mutex_unlock(&files->mutex);
    SSL_CTX_free(old);
    log_info("%s %.200s read again", files->rows[FILE_CERTIFICATE], files->paths[FILE_CERTIFICATE]);
    warn_of(files);
    return TLS_LOOK_NEW;
}

bool tls_files_asks_client(const struct tls_files *files)
{
    return files->paths[FILE_CA][0] != '\0';
}

SSL_CTX *tls_files_context(struct tls_files *files)
{
    pthread_mutex_lock(&files->mutex);
    assert(files->context);
    SSL_CTX *context = files->context;
    SSL_CTX_up_ref(context);
    pthread_mutex_unlock(&files->mutex);
    return context;
}

int64_t tls_files_expiry(struct tls_files *files)
{
    struct tm at = {0};
    SSL_CTX *context = tls_files_context(files);
    (void)ASN1_TIME_to_tm(X509_get0_notAfter(SSL_CTX_get0_certificate(context)), &at);
    SSL_CTX_free(context);
    return timegm(&at);
}

void tls_files_uris(struct tls_files *files, struct tls_uris *uris_out)
{
    SSL_CTX *context = tls_files_context(files);
    tls_certificate_uris(SSL_CTX_get0_certificate(context), uris_out);
    SSL_CTX_free(context);
}
