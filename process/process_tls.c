#include "process/process_tls.h"

#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <string.h>

METRICS_DEFINE(process_tls_metrics, PROCESS_TLS_METRICS)

/* ---- options that need each other ---- */

static enum status check_pair(const char *row, const char *value, const char *other_row,
                              const char *other, struct error *error)
{
    if (value[0] && !other[0])
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s \"%s\" needs %s", row, value,
                         other_row);
    return STATUS_OK;
}

static enum status check_rows(const struct process_tls_options *options, struct error *error)
{
    const char *certificate = options->certificate, *peer = options->peer_certificate;
    TRY(check_pair("tls_certificate", certificate, "tls_key", options->key, error));
    TRY(check_pair("tls_key", options->key, "tls_certificate", certificate, error));
    TRY(check_pair("tls_client_ca", options->client_ca, "tls_certificate", certificate, error));
    TRY(check_pair("peer_certificate", peer, "peer_key", options->peer_key, error));
    TRY(check_pair("peer_certificate", peer, "peer_ca", options->peer_ca, error));
    TRY(check_pair("peer_key", options->peer_key, "peer_certificate", peer, error));
    TRY(check_pair("peer_ca", options->peer_ca, "peer_certificate", peer, error));
    if (!tls_cluster_name_is_valid(options->cluster_name))
        return error_set(
            error, STATUS_INVALID_ARGUMENT,
            "cluster_name \"%.80s\": 1 to %u letters, digits, '.', '_' or '-' are allowed",
            options->cluster_name, TLS_CLUSTER_NAME_MAX);
    return STATUS_OK;
}

/* With a wrong identity in its certificate, this process would be refused by other processes. */
static enum status check_role(const struct process_tls_options *options, struct tls_files *peer,
                              struct error *error)
{
    struct tls_uris uris;
    struct tls_identity identity;
    char role[TLS_ROLES_TEXT];
    assert((options->role & (options->role - 1)) == 0 && "a process has one role, or none");
    if (!options->role)
        return STATUS_OK;
    tls_files_uris(peer, &uris);
    const char *own = tls_uris_identity(&uris);
    if (own && tls_identity_read(own, strlen(own), options->cluster_name, &identity) &&
        identity.roles == options->role)
        return STATUS_OK;
    tls_roles_format(options->role, role);
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "peer_certificate \"%s\" must have the URI kvferry://%s/role/%s and no other "
                     "identity; it has %s",
                     options->peer_certificate, options->cluster_name, role,
                     uris.n ? uris.uris[0] : "none");
}

/* ---- files ---- */

static enum status open_public(const struct process_tls_options *options, const char *ca,
                               struct error *error, struct tls_files **files_out)
{
    const struct tls_files_options files = {
        .certificate = options->certificate,
        .key = options->key,
        .ca = ca,
        .certificate_row = "tls_certificate",
        .key_row = "tls_key",
        .ca_row = "tls_client_ca",
    };
    return tls_files_open(&files, error, files_out);
}

static enum status open_peer(const struct process_tls_options *options, struct error *error,
                             struct tls_files **files_out)
{
    const struct tls_files_options files = {
        .certificate = options->peer_certificate,
        .key = options->peer_key,
        .ca = options->peer_ca,
        .certificate_row = "peer_certificate",
        .key_row = "peer_key",
        .ca_row = "peer_ca",
    };
    return tls_files_open(&files, error, files_out);
}

static enum status open_files(struct process_tls *tls, const struct process_tls_options *options,
                              struct error *error)
{
    assert(!tls->grpc && !tls->health && !tls->peer);
    TRY(check_rows(options, error));
    if (options->certificate[0])
        TRY(open_public(options, options->client_ca, error, &tls->grpc));
    if (options->certificate[0] && !options->has_clear_health) /* probes have no certificate */
        TRY(open_public(options, "", error, &tls->health));
    if (!options->peer_certificate[0])
        return STATUS_OK;
    TRY(open_peer(options, error, &tls->peer));
    return check_role(options, tls->peer, error);
}

enum status process_tls_check(const struct process_tls_options *options, struct error *error)
{
    struct process_tls tls = {0};
    enum status status = open_files(&tls, options, error);
    process_tls_finish(&tls);
    return status;
}

static struct rpc_client_tls client_tls(const struct process_tls_options *options)
{
    return (struct rpc_client_tls){
        .ca = options->peer_ca,
        .certificate = options->peer_certificate,
        .key = options->peer_key,
        .cluster = options->cluster_name,
    };
}

enum status process_tls_client(const struct process_tls_options *options,
                               struct rpc_client_tls *tls_out, bool *is_on_out, struct error *error)
{
    TRY(process_tls_check(options, error));
    *is_on_out = options->peer_certificate[0];
    if (*is_on_out)
        *tls_out = client_tls(options);
    return STATUS_OK;
}

static void say_expiry(const struct process_tls *tls)
{
    gauge_set(tls->metrics.tls_expiry, tls->grpc ? (double)tls_files_expiry(tls->grpc) : 0);
    gauge_set(tls->metrics.peer_expiry, tls->peer ? (double)tls_files_expiry(tls->peer) : 0);
}

enum status process_tls_init(struct process_tls *tls, const struct process_tls_options *options,
                             struct metrics *metrics, struct error *error)
{
    process_tls_metrics_init(&tls->metrics, metrics);
    assert(!tls->client && "opened once; later looks read the files again");
    TRY(open_files(tls, options, error));
    say_expiry(tls);
    if (!tls->peer)
        return STATUS_OK;
    tls->client_tls = client_tls(options);
    tls->client = &tls->client_tls;
    return STATUS_OK;
}

void process_tls_finish(struct process_tls *tls)
{
    tls_files_close(tls->grpc);
    tls_files_close(tls->health);
    tls_files_close(tls->peer);
    tls->grpc = tls->health = tls->peer = NULL;
    tls->client = NULL;
}

void process_tls_look(struct process_tls *tls)
{
    struct tls_files *const all[] = {tls->grpc, tls->health, tls->peer};
    assert(!tls->client == !tls->peer && "who shows a certificate to peers asks for theirs");
    uint32_t n_new = 0, n_failed = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        enum tls_look look = all[i] ? tls_files_look(all[i]) : TLS_LOOK_SAME;
        n_new += look == TLS_LOOK_NEW;
        n_failed += look == TLS_LOOK_FAILED;
    }
    if (n_new == 0 && n_failed == 0)
        return;
    counter_add(tls->metrics.reloads, n_new);
    counter_add(tls->metrics.failed_reloads, n_failed);
    say_expiry(tls);
}
