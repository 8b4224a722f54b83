/*
 * interrupt - what Ctrl-C (SIGINT) and SIGTERM do to a command that is no server: it ends with
 * 128 + the signal, 130 or 143.
 *
 * Both are blocked from the start (process_signals_init), and wait for process_wait_signal.
 *
 * Thread: main.
 */
#pragma once

/* From now on they end the process where it is: for what leaves nothing behind. */
void interrupt_ends(void);
/* From now on they wait again. */
void interrupt_waits(void);

/* The exit status of a command that this signal ended. */
int interrupt_status(int signal_number);
