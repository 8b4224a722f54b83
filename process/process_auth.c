#include "process/process_auth.h"

#include "base/log/log.h"
#include "base/secret.h"
#include "process/run_folder.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define LOG_EACH_NS (10 * NS_PER_S)

METRICS_DEFINE(process_auth_metrics, PROCESS_AUTH_METRICS)

enum status process_auth_check(const char *path, struct error *error)
{
    struct key_set keys;
    if (!path[0])
        return STATUS_OK;
    TRY(key_file_read(path, &keys, error));
    key_set_wipe(&keys);
    return STATUS_OK;
}

/* Other processes may share the descriptor: its position does not change. */
static enum status read_descriptor(int descriptor, struct key_set *keys_out, struct error *error)
{
    char text[CLUSTER_KEYS_MAX * KEY_LINE_BYTES];
    ssize_t n = pread(descriptor, text, sizeof text, 0);
    int reason = errno;
    close(descriptor);
    if (n < 0)
        return error_set(error, STATUS_IO_FAILED, "cluster_key_fd %d: %s", descriptor,
                         strerror(reason));
    enum status status = key_file_parse(text, (size_t)n, "cluster_key_fd", keys_out, error);
    secret_wipe(text, sizeof text);
    return status;
}

static enum status open_key(const struct process_auth_options *options, struct error *error,
                            struct cluster_key **key_out)
{
    char path[RUN_PATH_MAX];
    struct key_set keys;
    if (options->descriptor == 0 && options->path[0])
        return cluster_key_open(options->path, error, key_out);
    if (options->descriptor == 0) {
        TRY(run_folder_user_key(path, error));
        return cluster_key_open(path, error, key_out);
    }
    TRY(read_descriptor(options->descriptor, &keys, error));
    enum status status = cluster_key_create(&keys, key_out);
    key_set_wipe(&keys);
    return status;
}

enum status process_auth_init(struct process_auth *auth, const struct process_auth_options *options,
                              struct metrics *metrics, struct error *error)
{
    assert(!auth->key && !auth->auth);
    assert(options->life != 0 && "calls that name no life name 0");
    process_auth_metrics_init(&auth->metrics, metrics);
    TRY(open_key(options, error, &auth->key));
    struct call_auth_options call = {
        .key = auth->key, .life = options->life, .nonces_max = options->nonces_max};
    return call_auth_create(&call, &auth->auth);
}

void process_auth_finish(struct process_auth *auth)
{
    call_auth_destroy(auth->auth);
    cluster_key_destroy(auth->key);
    auth->auth = NULL;
    auth->key = NULL;
}

static void log_refusals(struct process_auth *auth, uint64_t now_ns)
{
    uint64_t n = 0;
    for (int i = 0; i < CALL_REFUSALS; i++)
        n += i == CALL_REFUSED_LIFE ? 0 : auth->n_told[i]; /* normal after a restart */
    assert(n >= auth->n_logged && "no refusal is taken back");
    if (n == auth->n_logged || now_ns < auth->log_at_ns)
        return;
    log_warn("calls between processes refused %" PRIu64 ": in all without the cluster key %" PRIu64
             " time %" PRIu64 " replayed %" PRIu64 " too many %" PRIu64,
             n - auth->n_logged, auth->n_told[CALL_REFUSED_UNPROVEN],
             auth->n_told[CALL_REFUSED_TIME], auth->n_told[CALL_REFUSED_REPLAYED],
             auth->n_told[CALL_REFUSED_FULL]);
    auth->n_logged = n;
    auth->log_at_ns = now_ns + LOG_EACH_NS;
}

void process_auth_look(struct process_auth *auth, uint64_t now_ns)
{
    struct counter *const counters[CALL_REFUSALS] = {
        [CALL_REFUSED_UNPROVEN] = auth->metrics.unproven, [CALL_REFUSED_TIME] = auth->metrics.time,
        [CALL_REFUSED_REPLAYED] = auth->metrics.replayed, [CALL_REFUSED_FULL] = auth->metrics.full,
        [CALL_REFUSED_LIFE] = auth->metrics.life,
    };
    if (!auth->auth)
        return;
    assert(auth->key && "who judges calls has the key");
    if (cluster_key_look(auth->key))
        counter_add(auth->metrics.reloads, 1);
    for (int i = 0; i < CALL_REFUSALS; i++) {
        uint64_t n = call_auth_refused(auth->auth, (enum call_refusal)i);
        assert(counters[i] && n >= auth->n_told[i]);
        counter_add(counters[i], n - auth->n_told[i]);
        auth->n_told[i] = n;
    }
    log_refusals(auth, now_ns);
}
