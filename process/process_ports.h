/*
 * process_ports - the ports of a process: HTTP's for metrics, gRPC's for the role's services, and the file that says
 * where they are. process_listen, process_ports_write and process_close_ports (process.h) are here, too.
 *
 * Thread: main.
 */
#pragma once

#include "process/process.h"

/* Makes the registry and, where metrics_address asks for it, the port with its pages. As http_server_open. */
MUST_CHECK enum status process_ports_open_metrics(struct process *process, struct error *error);

/* The line that a person looks for. */
void process_ports_log(const struct process *process);
