/*
 * process_ports - the ports of a process: HTTP for metrics, gRPC for the role's services, and the file with their
 * addresses. process_ports.c also has process_listen, process_ports_write and process_close_ports (process.h).
 *
 * Thread: main.
 */
#pragma once

#include "process/process.h"

/* Creates the registry and, if metrics_address is set, the port with its pages. Fails as http_server_open. */
MUST_CHECK enum status process_ports_open_metrics(struct process *process, struct error *error);

/* Logs the ports: the line that a person looks for. */
void process_ports_log(const struct process *process);
