/*
 * process_object - what a process of any role is made of. Its functions are in process.h and process_ports.h.
 *
 * Thread: main, unless a member says otherwise.
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
    const char *http_address;      /* the same */
    const char *engine_address;    /* the same */
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
    uint32_t peers_max;            /* other processes at the same time */
    uint32_t data_connections_max; /* of unauthenticated peers, at the role's data port */
    const struct http_page
        *pages; /* [n_pages] more of the metrics port; live until process_close */
    size_t n_pages;
    const struct http_feed *feed;            /* the same; NULL: none */
    const struct rpc_doorkeeper *doorkeeper; /* of the grpc port; NULL: all calls are admitted */
    struct relay_limits relay;
    const char *cluster_key; /* path; "": the key of the user on this host */
    int cluster_key_fd;      /* not 0: the key is read from it, and it is closed */
    uint32_t auth_nonces_max;
    struct process_trace_options trace;
    struct process_tls_options tls; /* role is set by process_open */
};

enum process_port { PORT_GRPC, PORT_CONTROL, PORT_HEALTH, PORT_ENGINE, PROCESS_PORTS };

#define PROCESS_SERVICES_MAX 8 /* on one port */
#define PROCESS_PAGES_MAX    8

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
    struct http_page pages[PROCESS_PAGES_MAX];
    size_t n_pages;
    struct process_auth auth;
    struct process_tls tls;
    struct process_trace trace;
    struct rpc_runtime *runtime;
    struct rpc_health *health;
    struct rpc_server *servers[PROCESS_PORTS];
    char addresses[PROCESS_PORTS][ADDRESS_TEXT_MAX]; /* advertised ones; "": no such port */
    char metrics_address[ADDRESS_TEXT_MAX];          /* the same */
    char http_address[ADDRESS_TEXT_MAX];             /* the same; of a router */
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

/* A drain was asked for: the process is not ready, and still accepts work until the delay is over. Any thread. */
static inline bool process_is_leaving(const struct process *process)
{
    return atomic_load(&process->refuses_from_ns) != 0;
}
