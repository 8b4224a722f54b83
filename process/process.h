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
 * metrics port has /metrics, /healthz (liveness), /readyz (readiness) and the role's pages; / of a role without pages lists them.
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

#include "process/process_object.h"
#include "process/process_ports.h"

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

/* Waits for this time, or for a signal: the first begins the drain delay. False: the delay is over, or a second
 * signal came, and the process must stop. In the last second of the delay, clients of the public port are told
 * to use another connection (GOAWAY), and after a signal no new connection is accepted: so their next calls go
 * to another process before they would be refused. */
bool process_goes_on(struct process *process, uint64_t timeout_ms);

/* Not OK: answer new work with this status (LOADING, DRAINING). Any thread. */
enum status process_refuses(const struct process *process);
/* Begins the drain delay, if it has not begun before. Any thread. */
void process_ask_drain(struct process *process);
/* Whether the delay is over. Any thread. */
bool process_is_draining(const struct process *process);
/* Ends the drain delay. */
void process_begin_drain(struct process *process);

/* Refuses new work, waits until n_live(arg) is 0 or the limit has passed (a second signal: at once),
 * then cancels the rest with DRAINING. */
void process_drain(struct process *process, uint32_t (*n_live)(void *arg), void *arg);

/* Services must not be called any more from other threads. A half-opened process is fine. */
void process_close(struct process *process);

/* Fills in name, role, incarnation, readiness, resident memory, id and uptime. */
void process_fill_state(const struct process *process, struct process_state *state_out);
