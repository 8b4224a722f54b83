/*
 * process_ports - the ports of a process: the HTTP port for metrics, the gRPC ports for the role's services, and the file that
 * tells others where they are.
 *
 * Thread: main.
 */
#pragma once

#include "process/process_object.h"

/* Longest start of a runtime or a port of gRPC, in s; measured: 2 ms. It may hang if a thread of its own cannot start. */
#define PROCESS_GRPC_START_S 15

/* Creates the registry and, where metrics_address asks for it, the port with its pages. Fails as http_server_open does. */
MUST_CHECK enum status process_ports_open_metrics(struct process *process, struct error *error);

/* Adds reflection. The methods of services must outlive the process. If gRPC hangs here, the process ends. */
MUST_CHECK enum status process_listen(struct process *process, enum process_port port,
                                      const struct rpc_service *services, size_t n_services,
                                      struct error *error);

/* Writes the ports file, with the last readiness of process_set_health. */
MUST_CHECK enum status process_ports_write(const struct process *process, struct error *error);

/* Registers the gauge kvferry_ready; process_open calls it. */
struct gauge *process_metrics_ready(struct metrics *metrics);

/* An HTTP port that is open at that address: others are told of it, and process_set_health looks whether it accepts. */
MUST_CHECK enum status process_ports_add_http(struct process *process, struct address *address,
                                              struct error *error);

/* Logs every port on one line. */
void process_ports_log(const struct process *process);

/* Other threads must not use the services any more. A half-opened process is fine. */
void process_close_ports(struct process *process);
