/*
 * process - what every role is around its own work: log, signals, ports, health, metrics, drain.
 *
 *     process_open        log, signals blocked, metrics port, health port (NOT_SERVING)
 *     process_listen      a port with the role's services; they answer LOADING until ready
 *     process_serving     startup SERVING; process_set_health says readiness from now on
 *     process_goes_on     until it is to stop, or a time; the first signal begins the drain delay
 *     process_drain       new work is refused by the services (process_refuses); waits for the old
 *     process_close       closes everything
 *
 * Health services: "" and "readiness" (takes requests), "startup" (has loaded), "liveness" (makes
 * progress, and its ports accept: self_check.h), and the full name of each service, which follows
 * readiness. The metrics port has /metrics, /healthz (liveness) and /readyz (readiness); / lists them.
 *
 * A drain, asked for by a signal or a call, begins with drain_delay_ms: not ready, in health and state,
 * while new work is still taken of those who have not heard of it. A signal more than the first ends
 * delay and drain at once.
 *
 * A drain keeps the ports open: what ends an open request (Commit, Abort) must still be served. Only
 * when the last request has ended, or at the limit, does gRPC refuse calls. Then clients leave as HTTP/2 has it
 * (rpc/relay/relay.h), so that none takes a call for one that was never seen, and only then the ports close.
 *
 * Thread: main; process_refuses and process_ask_drain from any.
 */
#pragma once

#include "base/http/http_server.h"
#include "base/log/log.h"
#include "base/metrics/metrics.h"
#include "process/ports/ports_file.h"
#include "process/process_auth.h"
#include "process/process_config.h"
#include "process/process_signals.h"
#include "process/process_state.h"
#include "process/process_tls.h"
#include "process/process_trace.h"
#include "process/self_check.h"
#include "rpc/runtime/runtime.h"
#include "rpc/server/call_counters.h"
#include "rpc/server/health.h"
#include "rpc/server/server.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct process_options {
    Kvferry__Internal__V1__Role role;
    const char *name;
    const char *advertise_address; /* "": see advertised_host.h */
    const char *grpc_address;      /* of the router; NULL otherwise */
    const char *control_address;
    const char *health_address;
    const char *metrics_address;
    const char *ports_file;
    enum log_level log_level;
    enum log_format log_format;
    bool dry_run;
    bool access_log;
    bool insecure;
    bool core_dumps;
    bool is_memory_shared; /* see memory_secrecy.h; of a worker with shm-read */
    enum process_seccomp seccomp;
    uint32_t parent_pid;
    uint64_t drain_delay_ms;
    uint64_t drain_limit_ms;
    uint64_t keepalive_ms;
    uint64_t keepalive_timeout_ms;
    uint64_t message_bytes_max;
    uint64_t header_bytes_max;
    uint64_t stream_buffer_bytes_max;
    uint64_t slow_reader_ms;
    uint64_t default_deadline_ms;
    uint64_t connection_age_ms;
    uint64_t watchdog_ms;
    uint32_t calls_max;
    uint32_t streams_per_connection_max;
    uint32_t peers_max;                      /* other processes at one time */
    uint32_t data_connections_max;           /* of strangers, at a port that is the role's own */
    const struct rpc_doorkeeper *doorkeeper; /* of the grpc port; NULL: everybody may enter */
    struct relay_limits relay;
    const char *cluster_key; /* path; "": that of the user on this host */
    int cluster_key_fd;      /* not 0: read instead, and closed */
    uint32_t auth_nonces_max;
    struct process_trace_options trace;
    struct process_tls_options tls; /* role is filled in */
};

enum process_port { PORT_GRPC, PORT_CONTROL, PORT_HEALTH, PROCESS_PORTS };

#define PROCESS_SERVICES_MAX 8 /* on one port */
#define PROCESS_PAGES        3

struct process {
    struct process_options options;
    char name[PROCESS_NAME_MAX];
    uint64_t incarnation; /* never 0 */
    uint64_t started_ns;
    struct metrics *metrics;
    struct relay_metrics relay_metrics;
    struct call_counters call_counters;
    struct gauge *ready;
    struct http_server *http;
    struct http_page pages[PROCESS_PAGES];
    struct process_auth auth;
    struct process_tls tls;
    struct process_trace trace;
    struct rpc_runtime *runtime;
    struct rpc_health *health;
    struct rpc_server *servers[PROCESS_PORTS];
    char addresses[PROCESS_PORTS][ADDRESS_TEXT_MAX]; /* for others; "" where nothing listens */
    char metrics_address[ADDRESS_TEXT_MAX];          /* the same */
    const char *service_names[PROCESS_PORTS * PROCESS_SERVICES_MAX];
    uint32_t n_service_names;
    char unseen[PORTS_UNSEEN_MAX]; /* for the ports file; of a router */
    struct self_check *self_check;
    bool has_loaded;
    atomic_bool is_ready; /* what health said last, and /readyz says */
    atomic_bool is_live;  /* and /healthz */
    atomic_bool serving;
    _Atomic uint64_t refuses_from_ns; /* a drain was asked for; 0: none */
    bool has_sent_away;               /* clients of the public port; main's, as what follows */
    bool is_told_to_stop;             /* by a signal */
    bool is_told_twice;               /* nothing is waited for any more */
};

/* SIGTERM when that process, the parent, ends, even if it has ended already. 0: nothing. */
void process_follow_parent(uint32_t parent_pid);

/* What process_open refuses before it opens anything. Raises the limit of open descriptors. */
MUST_CHECK enum status process_check(const struct process_options *options, struct error *error);

/* Fails with a sentence; what was opened is closed again. Raises the limit of open descriptors. */
MUST_CHECK enum status process_open(struct process *process, const struct process_options *options,
                                    struct error *error);

/* A runtime that process_set_health watches, beside the servers'; the caller's, to destroy after the
 * last process_set_health. Ends the process when gRPC hangs over it. */
MUST_CHECK enum status process_add_runtime(struct process *process, const char *thread_name,
                                           struct error *error, struct rpc_runtime **runtime_out);

/* Adds reflection. services' methods must outlive the process. */
MUST_CHECK enum status process_listen(struct process *process, enum process_port port,
                                      const struct rpc_service *services, size_t n_services,
                                      struct error *error);

/* Writes the ports file, with what process_set_health last said. */
MUST_CHECK enum status process_ports_write(const struct process *process, struct error *error);

/* Loaded: from now on process_refuses lets work through. Logs the ports and `ready in`. */
void process_serving(struct process *process);
/* Logs the sentence, or the status's text, and sees to it that the process ends soon, even if what is
 * half built cannot be taken down: for a start that failed, before that. */
void process_cannot_start(enum status status, const struct error *error);

/* Also the look at the cluster key and the certificates: files that have changed are read again; and at
 * what is to be told to a collector of traces.
 * What the role says of itself; not live, and so not ready, is also what self_check finds at this
 * look. Changes health only when something changed. */
void process_set_health(struct process *process, bool is_ready, bool is_live);

/* Ends a process that is told so while it loads, and owes nobody anything yet. */
_Noreturn void process_end_loading(const struct process *process);

/* kvferry_ready; registered by process_open. */
struct gauge *process_metrics_ready(struct metrics *metrics);

/* Waits so long, or for a signal: the first begins the drain delay. False: that is over, or a second
 * one came, and the process is to stop. In the delay's last second clients of the public port are told
 * to use another connection (GOAWAY), and after a signal none is taken any more: their next calls go to another
 * process before they would be refused. */
bool process_goes_on(struct process *process, uint64_t timeout_ms);

/* Not OK: new work must be answered with this (LOADING, DRAINING). Any thread. */
enum status process_refuses(const struct process *process);
/* The delay begins, unless it has begun before. Any thread. */
void process_ask_drain(struct process *process);
/* A drain was asked for: it is not ready, and takes work until the delay is over. Any thread. */
bool process_is_leaving(const struct process *process);
/* The delay is over. Any thread. */
bool process_is_draining(const struct process *process);
/* Ends the delay. */
void process_begin_drain(struct process *process);

/* Refuses new work, waits until n_live(arg) is 0 or the limit has passed (a second signal: at once),
 * then cancels the rest with DRAINING. */
void process_drain(struct process *process, uint32_t (*n_live)(void *arg), void *arg);

/* Services must not be called any more from other threads. A half-opened process is fine. */
void process_close_ports(struct process *process);
void process_close(struct process *process);

/* Name, role, incarnation, readiness, resident memory, id and uptime. */
void process_fill_state(const struct process *process, struct process_state *state_out);
