/*
 * ucx_process - what UCX changes of the whole process, and which UCX was loaded.
 *
 * Process state: UCX's log handler, and the signals UCX took at load.
 */
#pragma once

/* First thing in main, before threads: gives back the signals that UCX takes when it is loaded
 * (SEGV, BUS, FPE, ILL, HUP) and sends UCX's log lines to ours, at debug unless fatal. */
void ucx_process_init(void);

const char *ucx_version(void); /* of the loaded library, "1.13.1" */
