/*
 * process - what all roles have in common: log, signals, ports, health, metrics, drain.
 *
 *     process_open        log, signals blocked, metrics port, health port (NOT_SERVING)
 *     process_listen      a port with the role's services; they answer LOADING until ready
 *     process_serving     startup SERVING; process_set_health says readiness from now on
 *     process_goes_on     waits until it must stop, or for a time; the first signal begins the drain delay
 *     process_drain       the services refuse new work (process_refuses); waits for the old
 *     process_close       closes everything
 *
 * Health services: "" and "readiness" (takes requests), "startup" (has loaded), "liveness" (makes progress, and
 * its ports accept: self_check.h), and the full name of each service, with the same status as readiness. The
 * metrics port has /metrics, /healthz (liveness) and /readyz (readiness); / lists them.
 *
 * A drain, which a signal or a call starts, begins with drain_delay_ms: health and state say not ready, but the
 * process still accepts new work from clients that do not know that yet. A second signal ends delay and drain
 * at once.
 *
 * A drain keeps the ports open: calls that end an open request (Commit, Abort) must still be served. gRPC
 * refuses calls only when the last request has ended, or at the limit. Then connections end by HTTP/2's
 * graceful shutdown (rpc/relay/relay.h), so that no client believes that a call was never seen, and after that
 * the ports close.
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
    const char *grpc_address;      /* of the router; else NULL */
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
    uint32_t peers_max;                      /* other processes at the same time */
    uint32_t data_connections_max;           /* of unauthenticated peers, at the role's data port */
    const struct rpc_doorkeeper *doorkeeper; /* of the grpc port; NULL: all calls are admitted */
    struct relay_limits relay;
    const char *cluster_key; /* path; "": the key of the user on this host */
    int cluster_key_fd;      /* not 0: the key is read from it, and it is closed */
    uint32_t auth_nonces_max;
    struct process_trace_options trace;
    struct process_tls_options tls; /* role is set by process_open */
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
    char addresses[PROCESS_PORTS][ADDRESS_TEXT_MAX]; /* advertised ones; "": no such port */
    char metrics_address[ADDRESS_TEXT_MAX];          /* the same */
    const char *service_names[PROCESS_PORTS * PROCESS_SERVICES_MAX];
    uint32_t n_service_names;
    char unseen[PORTS_UNSEEN_MAX]; /* of a router, for the ports file */
    struct self_check *self_check;
    bool has_loaded;
    atomic_bool is_ready; /* the last status of health and /readyz */
    atomic_bool is_live;  /* the same of /healthz */
    atomic_bool serving;
    _Atomic uint64_t refuses_from_ns; /* when the drain delay ends; 0: no drain */
    bool has_sent_away;   /* to clients of the public port; only for main, as those below */
    bool is_told_to_stop; /* by a first signal */
    bool is_told_twice;   /* by a second signal: waits for nothing any more */
};

/* Sends this process SIGTERM when the parent, with this id, ends, also if it has ended already. 0:
 * does nothing. */
void process_follow_parent(uint32_t parent_pid);

/* Checks what process_open would refuse, without opening anything. Raises the limit of open
 * descriptors. */
MUST_CHECK enum status process_check(const struct process_options *options, struct error *error);

/* Fails with a sentence, and closes what it has opened. Raises the limit of open descriptors. */
MUST_CHECK enum status process_open(struct process *process, const struct process_options *options,
                                    struct error *error);

/* Creates another runtime that process_set_health watches, as it does that of the servers. The
 * caller destroys it after the last process_set_health. If gRPC hangs while it starts, the process
 * ends. */
MUST_CHECK enum status process_add_runtime(struct process *process, const char *thread_name,
                                           struct error *error, struct rpc_runtime **runtime_out);

/* Adds reflection. The methods of services must outlive the process. */
MUST_CHECK enum status process_listen(struct process *process, enum process_port port,
                                      const struct rpc_service *services, size_t n_services,
                                      struct error *error);

/* Writes the ports file, with the last readiness of process_set_health. */
MUST_CHECK enum status process_ports_write(const struct process *process, struct error *error);

/* The model is loaded: from now on process_refuses permits work. Logs the ports and `ready in`. */
void process_serving(struct process *process);
/* For a start that failed: logs the sentence, or the status's text, and makes sure that the process
 * ends soon, even if the clean-up hangs. Call it before the clean-up. */
void process_cannot_start(enum status status, const struct error *error);

/* Sets the role's readiness and liveness; a failed self_check also makes the process not live and not
 * ready. Changes health only if something changed. Also reads changed key and certificate files again,
 * and sends traces to the collector. */
void process_set_health(struct process *process, bool is_ready, bool is_live);

/* Ends the process at a signal while it loads: it has no requests yet. */
_Noreturn void process_end_loading(const struct process *process);

/* Sets kvferry_ready, which process_open has registered. */
struct gauge *process_metrics_ready(struct metrics *metrics);

/* Waits for this time, or for a signal: the first begins the drain delay. False: the delay is over, or a second
 * signal came, and the process must stop. In the last second of the delay, clients of the public port are told
 * to use another connection (GOAWAY), and after a signal no new connection is accepted: so their next calls go
 * to another process before they would be refused. */
bool process_goes_on(struct process *process, uint64_t timeout_ms);

/* Not OK: answer new work with this status (LOADING, DRAINING). Any thread. */
enum status process_refuses(const struct process *process);
/* Begins the drain delay, if it has not begun before. Any thread. */
void process_ask_drain(struct process *process);
/* Whether a drain was asked for: the process is not ready, but accepts work until the delay is
 * over. Any thread. */
bool process_is_leaving(const struct process *process);
/* Whether the delay is over. Any thread. */
bool process_is_draining(const struct process *process);
/* Ends the drain delay. */
void process_begin_drain(struct process *process);

/* Refuses new work, waits until n_live(arg) is 0 or the limit has passed (a second signal: at once),
 * then cancels the rest with DRAINING. */
void process_drain(struct process *process, uint32_t (*n_live)(void *arg), void *arg);

/* Other threads must not use the services any more. A half-opened process is fine. */
void process_close_ports(struct process *process);
void process_close(struct process *process);

/* Fills in name, role, incarnation, readiness, resident memory, id and uptime. */
void process_fill_state(const struct process *process, struct process_state *state_out);
