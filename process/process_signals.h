/*
 * process_signals - how a process hears that it is to end: SIGTERM and SIGINT, waited for, never handled.
 *
 * Global state: the process's signals.
 * Thread: one waits at a time; init before any other is there, since threads inherit what is blocked.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Of main, first of all: handlers that write the log before a crash ends the process (UCX takes some
 * when it is loaded), SIGPIPE ignored, SIGTERM and SIGINT blocked for process_wait. Before any thread
 * is started. SIGHUP is ignored: a server outlives its terminal, and a client's output is its end. */
void process_signals_init(void);

enum process_wake { PROCESS_TIME, PROCESS_STOP };
/* PROCESS_STOP: SIGTERM or SIGINT came. */
enum process_wake process_wait(uint64_t timeout_ms);
/* Which of them; 0: neither has. */
int process_wait_signal(uint64_t timeout_ms);
/* Whether one has come that process_wait has not told yet. */
bool process_is_told_to_stop(void);
