/*
 * ucx_process - undoes what UCX changes in the whole process, and tells which UCX was loaded.
 *
 * Process state: UCX's log handler, and the signals UCX took at load.
 */
#pragma once

/* main calls this first, before there are threads. It restores the signals that UCX handles from its load on
 * (SEGV, BUS, FPE, ILL, HUP), and sends UCX's log lines to our log: fatal ones as such, others at debug. */
void ucx_process_init(void);

const char *ucx_version(void); /* of the loaded library, "1.13.1" */
