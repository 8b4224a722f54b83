/*
 * process_signals - waits for SIGTERM and SIGINT, which ask the process to end; they are blocked, never
 * handled.
 *
 * Global state: the process's signals.
 * Thread: one waits at a time. init runs before other threads start, because threads inherit blocked
 * signals.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The first call of main, before any thread starts: installs handlers that write the log at a crash
 * (UCX takes some over when it is loaded), ignores SIGPIPE, and blocks SIGTERM and SIGINT for
 * process_wait. SIGHUP is ignored: a server outlives its terminal, and a client ends when its output
 * fails. */
void process_signals_init(void);

enum process_wake { PROCESS_TIME, PROCESS_STOP };
/* PROCESS_STOP: SIGTERM or SIGINT came. */
enum process_wake process_wait(uint64_t timeout_ms);
/* The signal that came; 0: none. */
int process_wait_signal(uint64_t timeout_ms);
/* Whether a signal has come that process_wait has not reported yet. */
bool process_is_told_to_stop(void);
