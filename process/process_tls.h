/*
 * process_tls - the certificates of a process: for its clients, and for other processes of the cluster.
 *
 *     tls_*    the grpc port, which may require client certificates of tls_client_ca, and, unless it must
 *              stay in clear text, the health port
 *     peer_*   the control port, and the calls to other processes: both sides must show a role of cluster_name
 *
 * Thread: main; files and client are used from any.
 */
#pragma once

#include "base/metrics/metrics.h"
#include "rpc/client/client.h"
#include "rpc/tls/tls_files.h"

#include <stdbool.h>
#include <stdint.h>

#define PROCESS_TLS_METRICS(X)                                                                     \
    X(GAUGE, tls_expiry, "kvferry_tls_certificate_expiry_timestamp_seconds", "pair=tls",           \
      "Unix time at which a certificate of this process expires; 0: no certificate.")              \
    X(GAUGE, peer_expiry, "kvferry_tls_certificate_expiry_timestamp_seconds", "pair=peer",         \
      "Unix time at which a certificate of this process expires; 0: no certificate.")              \
    X(COUNTER, reloads, "kvferry_tls_reloads_total", "result=ok",                                  \
      "Changed certificate files that were loaded, or could not be used.")                         \
    X(COUNTER, failed_reloads, "kvferry_tls_reloads_total", "result=failed",                       \
      "Changed certificate files that were loaded, or could not be used.")

METRICS_DECLARE(process_tls_metrics, PROCESS_TLS_METRICS);

/* Paths; "": none. */
struct process_tls_options {
    const char *certificate, *key, *client_ca;
    const char *peer_certificate, *peer_key, *peer_ca;
    const char *cluster_name;
    bool has_clear_health; /* even if there is a certificate */
    uint32_t role;         /* TLS_ROLE_BIT of this process; 0: its certificate may have any */
};

struct process_tls {
    struct tls_files *grpc; /* NULL, like those below: clear text */
    struct tls_files *health;
    struct tls_files *peer;
    struct rpc_client_tls client_tls;
    const struct rpc_client_tls *client; /* for calls to other processes */
    struct process_tls_metrics metrics;
};

/* Checks that the files can be used and match; keeps nothing. The sentence has the row. */
MUST_CHECK enum status process_tls_check(const struct process_tls_options *options,
                                         struct error *error);
/* For a process that only calls others: checks the rows and files of peer_*, and keeps nothing. *is_on_out
 * false: there are none, and *tls_out is not set. The strings of options are borrowed. */
MUST_CHECK enum status process_tls_client(const struct process_tls_options *options,
                                          struct rpc_client_tls *tls_out, bool *is_on_out,
                                          struct error *error);
/* After a failure call process_tls_finish. The strings of options are borrowed. Registers its metrics. */
MUST_CHECK enum status process_tls_init(struct process_tls *tls,
                                        const struct process_tls_options *options,
                                        struct metrics *metrics, struct error *error);
void process_tls_finish(struct process_tls *tls); /* a zeroed one is fine */

/* Reads changed files again. */
void process_tls_look(struct process_tls *tls);
