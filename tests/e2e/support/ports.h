/*
 * ports - words of a command: each port that its role has is a free one of the loopback.
 */
#pragma once

#define WORKER_PORTS                                                                               \
    "--control-address", "127.0.0.1:0", "--health-address", "127.0.0.1:0", "--metrics-address",    \
        "127.0.0.1:0"
/* Without a port for HTTP, which serve has by default at a fixed address. */
#define ROUTER_PORTS "--grpc-address", "127.0.0.1:0", "--http-address", "", WORKER_PORTS
