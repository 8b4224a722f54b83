/*
 * interrupt - Ctrl-C (SIGINT) and SIGTERM in a command that is not a server: it ends with 128 + the
 * signal, 130 or 143.
 *
 * Both are blocked from the start (process_signals_init) until process_wait_signal takes them.
 *
 * Thread: main.
 */
#pragma once

/* From now on they end the process at once: for code that needs no clean-up. */
void interrupt_ends(void);
/* From now on they are blocked again. */
void interrupt_waits(void);

/* The exit status of a command that this signal ended. */
int interrupt_status(int signal_number);
