/*
 * process_auth - the cluster key of a process, and the check of calls with it.
 *
 *     the key is that of an inherited descriptor (`kvferry serve`), that of cluster_key, or
 *     the user's key (run_folder.h)
 *
 * Thread: main; key and auth are used from any.
 */
#pragma once

#include "base/metrics/metrics.h"
#include "rpc/auth/call_auth.h"

#define PROCESS_AUTH_METRICS(X)                                                                    \
    X(COUNTER, unproven, "kvferry_auth_failures_total", "reason=unproven",                         \
      "Calls between processes that were refused: not signed with the cluster key, too old, "      \
      "replayed, too many at once to detect replays, or meant for an earlier run of this "         \
      "process.")                                                                                  \
    X(COUNTER, time, "kvferry_auth_failures_total", "reason=time",                                 \
      "Calls between processes that were refused: not signed with the cluster key, too old, "      \
      "replayed, too many at once to detect replays, or meant for an earlier run of this "         \
      "process.")                                                                                  \
    X(COUNTER, replayed, "kvferry_auth_failures_total", "reason=replayed",                         \
      "Calls between processes that were refused: not signed with the cluster key, too old, "      \
      "replayed, too many at once to detect replays, or meant for an earlier run of this "         \
      "process.")                                                                                  \
    X(COUNTER, full, "kvferry_auth_failures_total", "reason=full",                                 \
      "Calls between processes that were refused: not signed with the cluster key, too old, "      \
      "replayed, too many at once to detect replays, or meant for an earlier run of this "         \
      "process.")                                                                                  \
    X(COUNTER, life, "kvferry_auth_failures_total", "reason=life",                                 \
      "Calls between processes that were refused: not signed with the cluster key, too old, "      \
      "replayed, too many at once to detect replays, or meant for an earlier run of this "         \
      "process.")                                                                                  \
    X(COUNTER, reloads, "kvferry_cluster_key_reloads_total", "",                                   \
      "Changes of the cluster key file that were read.")

METRICS_DECLARE(process_auth_metrics, PROCESS_AUTH_METRICS);

struct process_auth {
    struct cluster_key *key; /* also for the calls that this process makes */
    struct call_auth *auth;
    struct process_auth_metrics metrics;
    uint64_t n_told[CALL_REFUSALS]; /* refusals that the metrics have counted */
    uint64_t n_logged;
    uint64_t log_at_ns;
};

struct process_auth_options {
    const char *path; /* "": the user's key */
    int descriptor;   /* not 0: read instead of path, and closed */
    uint64_t life;
    uint32_t nonces_max;
};

/* Checks that the key can be read, if there is a path. Creates nothing. */
MUST_CHECK enum status process_auth_check(const char *path, struct error *error);
/* After a failure call process_auth_finish. Registers its metrics. */
MUST_CHECK enum status process_auth_init(struct process_auth *auth,
                                         const struct process_auth_options *options,
                                         struct metrics *metrics, struct error *error);
void process_auth_finish(struct process_auth *auth); /* a zeroed one is fine */

/* Reads a changed file again; reports refused calls in metrics and log. */
void process_auth_look(struct process_auth *auth, uint64_t now_ns);
