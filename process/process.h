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

#include "process/process_object.h"
#include "process/process_ports.h"

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

/* Waits so long, or for a signal: the first begins the drain delay. False: that is over, or a second
 * one came, and the process is to stop. In the delay's last second clients of the public port are told
 * to use another connection (GOAWAY), and after a signal none is taken any more: their next calls go to another
 * process before they would be refused. */
bool process_goes_on(struct process *process, uint64_t timeout_ms);

/* Not OK: new work must be answered with this (LOADING, DRAINING). Any thread. */
enum status process_refuses(const struct process *process);
/* The delay begins, unless it has begun before. Any thread. */
void process_ask_drain(struct process *process);
/* The delay is over. Any thread. */
bool process_is_draining(const struct process *process);
/* Ends the delay. */
void process_begin_drain(struct process *process);

/* Refuses new work, waits until n_live(arg) is 0 or the limit has passed (a second signal: at once),
 * then cancels the rest with DRAINING. */
void process_drain(struct process *process, uint32_t (*n_live)(void *arg), void *arg);

/* Services must not be called any more from other threads. A half-opened process is fine. */
void process_close(struct process *process);

/* Name, role, incarnation, readiness, resident memory, id and uptime. */
void process_fill_state(const struct process *process, struct process_state *state_out);
