#include "router/admission/admission.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/random.h"
#include "base/regular_file.h"
#include "base/secret.h"
#include "router/admission/bearer.h"
#include "router/admission/refusal.h"
#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define KEY_FILE_BYTES_MAX 4096u
#define KEY_FILE_BYTES_MIN 32u
#define HEALTH_PREFIX      "/grpc.health.v1.Health/"
#define LOG_NS             NS_PER_S

/* NULL: there is none, or more than one. */
static const char *find_token(const struct rpc_call *call, size_t *bytes_out)
{
    const char *value;
    size_t bytes;
    if (rpc_call_header(call, "authorization", &value, &bytes) != 1)
        return NULL;
    return bearer_token(value, bytes, bytes_out);
}

static void log_failure(struct admission *admission, const struct admission_call *call,
                        const struct tenant_refusal *refusal, uint64_t now_ns)
{
    assert(refusal->sentence[0] && "a refusal says why");
    admission->n_unlogged++;
    if (admission->logged_ns && now_ns - admission->logged_ns < LOG_NS)
        return;
    log_event(LOG_WARN, &(struct log_about){.peer = call->about.peer}, "call refused",
              LOG_TEXT("method", call->method), LOG_TEXT("why", refusal->sentence),
              LOG_U64("n_since_last_line", admission->n_unlogged));
    admission->logged_ns = now_ns;
    admission->n_unlogged = 0;
}

static bool is_request(enum tenant_method method)
{
    return method == TENANT_GENERATE || method == TENANT_COMPLETE;
}

static uint32_t ms_of(uint64_t ns)
{
    uint64_t ms = (ns + NS_PER_MS - 1) / NS_PER_MS;
    return ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX;
}

void admission_refuse(enum status status, const struct tenant_refusal *refusal,
                      struct rpc_error *error)
{
    assert(status != STATUS_OK && refusal->sentence[0]);
    rpc_error_set(error, status, NULL, NULL, "%s", refusal->sentence);
    error->retry_after_ms = ms_of(refusal->wait_ns);
}

enum status admission_enter(struct admission *admission, const struct admission_call *call,
                            struct tenant_pass **pass_out, struct rpc_error *error)
{
    struct tenant_refusal refusal;
    struct tls_identity identity;
    uint64_t now_ns = clock_now_ns();
    *pass_out = NULL;
    if (!admission->tenants)
        return STATUS_OK;
    if (!tls_identity_read(call->identity, strlen(call->identity), admission->cluster_name,
                           &identity))
        identity.tenant[0] = '\0';
    const struct tenant_claim claim = {
        .token = call->token, .token_bytes = call->token_bytes, .tenant = identity.tenant};
    enum status status = tenants_enter(admission->tenants, &claim, call->kind, now_ns, pass_out,
                                       &refusal);
    assert((status != STATUS_OK || *pass_out) && "who is let in has one, and leaves it at the end");
    if (status == STATUS_OK)
        return STATUS_OK;
    pthread_mutex_lock(&admission->mutex);
    if (status == STATUS_UNAUTHENTICATED || status == STATUS_NOT_ALLOWED)
        log_failure(admission, call, &refusal, now_ns);
    pthread_mutex_unlock(&admission->mutex);
    if (refusal.tenant[0] && is_request(call->kind))
        refusal_tell(&call->about, status, refusal.tenant, refusal.sentence);
    admission_refuse(status, &refusal, error);
    return status;
}

/* ---- calls of gRPC ---- */

static enum status enter(void *arg, const struct rpc_call *call, const char *path, void **pass_out,
                         struct rpc_error *error)
{
    struct admission *admission = arg;
    struct tenant_pass *pass;
    struct rpc_peer peer;
    struct request_origin origin;
    char address[64];
    if (!admission->tenants || strncmp(path, HEALTH_PREFIX, sizeof HEALTH_PREFIX - 1) == 0)
        return STATUS_OK;
    rpc_call_peer_of(call, &peer);
    rpc_call_peer(call, address, sizeof address);
    rpc_call_origin(call, &origin);
    struct admission_call wanted = {
        .method = path,
        .kind = tenant_method_of_path(path),
        .identity = peer.identity,
        .about = {.request_id = origin.request_id, .trace = &origin.trace, .peer = address}};
    wanted.token = find_token(call, &wanted.token_bytes);
    TRY(admission_enter(admission, &wanted, &pass, error));
    *pass_out = pass;
    return STATUS_OK;
}

static void leave(void *arg, void *pass)
{
    (void)arg;
    tenant_pass_leave(pass);
}

static void destroy(void *arg, void *pass)
{
    (void)arg;
    tenant_pass_destroy(pass, clock_now_ns());
}

/* Any secret of enough bytes is a key; what ends the file's last line is no part of it. */
static enum status read_key(const char *path, struct sha256 *key_out, struct error *error)
{
    char *text = NULL;
    size_t bytes = 0;
    TRY(regular_file_read(path, KEY_FILE_BYTES_MAX, &text, &bytes, error));
    size_t n = bytes;
    while (n > 0 && strchr("\r\n", text[n - 1]))
        n--;
    enum status status = n < KEY_FILE_BYTES_MIN
                             ? error_set(error, STATUS_CORRUPT,
                                         "%s: %zu bytes; a key has %u random ones or more", path, n,
                                         KEY_FILE_BYTES_MIN)
                             : sha256_of(text, n, key_out);
    secret_wipe(text, bytes);
    free(text);
    return status;
}

static enum status make_key(const char *path, struct sha256 *key_out, struct error *error)
{
    return path[0] ? read_key(path, key_out, error)
                   : random_secret(key_out, sizeof *key_out, error);
}

enum status admission_open(struct admission *admission, const char *tokens_file,
                           const char *salt_key_file, struct error *error)
{
    *admission = (struct admission){0};
    pthread_mutex_init(&admission->mutex, NULL);
    admission->doorkeeper = (struct rpc_doorkeeper){
        .arg = admission, .enter = enter, .leave = leave, .destroy = destroy};
    if (!tokens_file[0])
        return STATUS_OK;
    struct tenants_options options = {.path = tokens_file};
    TRY(make_key(salt_key_file, &options.salt_key, error));
    enum status status = tenants_create(&options, clock_now_ns(), error, &admission->tenants);
    secret_wipe(&options.salt_key, sizeof options.salt_key);
    return status;
}

void admission_close(struct admission *admission)
{
    tenants_destroy(admission->tenants);
    admission->tenants = NULL;
}

enum status admission_check(const char *tokens_file, const char *salt_key_file, struct error *error)
{
    struct tenant_row *rows;
    uint32_t n_rows;
    struct sha256 key;
    if (salt_key_file[0]) {
        TRY(read_key(salt_key_file, &key, error));
        secret_wipe(&key, sizeof key);
    }
    if (salt_key_file[0] && !tokens_file[0])
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "salt_key_file has no effect without tokens_file");
    if (!tokens_file[0])
        return STATUS_OK;
    TRY(tenant_file_read(tokens_file, &rows, &n_rows, error));
    free(rows);
    return STATUS_OK;
}
