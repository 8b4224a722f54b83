/* credentials - see credentials.h. */
#include "rpc/auth/credentials.h"

#include "base/log/log.h"
#include "base/regular_file.h"
#include "base/secret.h"
#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <grpc/grpc_security.h>
#include <grpc/support/string_util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_S         2 /* between two looks at the files */
#define FILE_BYTES_MAX (1u << 20)

struct channel_credentials {
    const struct rpc_client_tls *tls;        /* NULL: clear text */
    grpc_tls_certificate_provider *provider; /* NULL: no cluster name */
};

grpc_server_credentials *rpc_credentials_server(void)
{
    return grpc_insecure_server_credentials_create();
}

enum status channel_credentials_create(const struct rpc_client_tls *tls,
                                       struct channel_credentials **credentials_out)
{
    struct channel_credentials *credentials = calloc(1, sizeof *credentials);
    if (!credentials)
        return STATUS_NO_MEMORY;
    credentials->tls = tls;
    if (tls && tls->cluster)
        credentials->provider = grpc_tls_certificate_provider_file_watcher_create(
            tls->key, tls->certificate, tls->ca, LOOK_S);
    *credentials_out = credentials;
    return STATUS_OK;
}

void channel_credentials_destroy(struct channel_credentials *credentials)
{
    if (!credentials)
        return;
    if (credentials->provider)
        grpc_tls_certificate_provider_release(credentials->provider);
    free(credentials);
}

/* ---- by role ---- */

/* Lives as long as the channel; gRPC destroys it. */
struct role_check {
    grpc_tls_certificate_verifier_external external;
    uint32_t roles;
    char cluster[TLS_CLUSTER_NAME_MAX + 1];
};

/* OK, or the reason, which becomes the connection's error. */
static grpc_status_code judge(const struct role_check *check, char *const *uris, size_t n_uris,
                              char *why_out, size_t why_bytes)
{
    struct tls_identity identity;
    const char *own = tls_identity_only((const char *const *)uris, n_uris);
    if (own && tls_identity_read(own, strlen(own), check->cluster, &identity) &&
        identity.roles & check->roles)
        return GRPC_STATUS_OK;
    char roles[TLS_ROLES_TEXT];
    tls_roles_format(check->roles, roles);
    snprintf(why_out, why_bytes, "its certificate is none of role %s of cluster %s but \"%.100s\"",
             roles, check->cluster, own ? own : "of no role");
    return GRPC_STATUS_UNAUTHENTICATED;
}

static int verify(void *arg, grpc_tls_custom_verification_check_request *request,
                  grpc_tls_on_custom_verification_check_done_cb callback, void *callback_arg,
                  grpc_status_code *status_out, char **details_out)
{
    (void)callback, (void)callback_arg;
    char why[320];
    *status_out = judge(arg, request->peer_info.san_names.uri_names,
                        request->peer_info.san_names.uri_names_size, why, sizeof why);
    if (*status_out != GRPC_STATUS_OK)
        *details_out = gpr_strdup(why);
    return 1;
}

static void cancel(void *arg, grpc_tls_custom_verification_check_request *request)
{
    (void)arg, (void)request;
}

static grpc_channel_credentials *by_role(const struct channel_credentials *credentials,
                                         uint32_t roles)
{
    assert(strlen(credentials->tls->cluster) <= TLS_CLUSTER_NAME_MAX);
    struct role_check *check = calloc(1, sizeof *check);
    if (!check)
        return NULL;
    check->external = (grpc_tls_certificate_verifier_external){
        .user_data = check, .verify = verify, .cancel = cancel, .destruct = free};
    check->roles = roles;
    snprintf(check->cluster, sizeof check->cluster, "%s", credentials->tls->cluster);
    grpc_tls_certificate_verifier *verifier = grpc_tls_certificate_verifier_external_create(
        &check->external);
    grpc_tls_credentials_options *options = grpc_tls_credentials_options_create();
    grpc_tls_credentials_options_set_certificate_provider(options, credentials->provider);
    grpc_tls_credentials_options_watch_root_certs(options);
    grpc_tls_credentials_options_watch_identity_key_cert_pairs(options);
    grpc_tls_credentials_options_set_certificate_verifier(options, verifier);
    grpc_tls_credentials_options_set_check_call_host(options, 0);
    grpc_channel_credentials *result = grpc_tls_credentials_create(options);
    grpc_tls_certificate_verifier_release(verifier);
    return result;
}

/* ---- by host name ---- */

/* path "": no file, *text_out is NULL. */
static enum status read_pem(const char *path, char **text_out)
{
    struct error error = {""};
    size_t bytes;
    *text_out = NULL;
    if (!path[0])
        return STATUS_OK;
    enum status status = regular_file_read(path, FILE_BYTES_MAX, text_out, &bytes, &error);
    if (status != STATUS_OK)
        log_error("%s", error.text[0] ? error.text : status_text(status));
    return status;
}

static void free_secret(char *text)
{
    if (text)
        secret_wipe(text, strlen(text));
    free(text);
}

static grpc_channel_credentials *by_host(const struct rpc_client_tls *tls)
{
    grpc_channel_credentials *result = NULL;
    char *ca = NULL, *certificate = NULL, *key = NULL;
    if (read_pem(tls->ca, &ca) == STATUS_OK &&
        read_pem(tls->certificate, &certificate) == STATUS_OK &&
        read_pem(tls->key, &key) == STATUS_OK) {
        grpc_ssl_pem_key_cert_pair pair = {.private_key = key, .cert_chain = certificate};
        result = grpc_ssl_credentials_create_ex(ca, certificate ? &pair : NULL, NULL, NULL);
    }
    free(ca);
    free(certificate);
    free_secret(key);
    return result;
}

grpc_channel_credentials *channel_credentials_for(struct channel_credentials *credentials,
                                                  uint32_t roles)
{
    if (!credentials->tls)
        return grpc_insecure_credentials_create();
    return credentials->provider ? by_role(credentials, roles) : by_host(credentials->tls);
}
