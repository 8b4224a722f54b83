/*
 * serve_config - the configuration of `kvferry serve`: its own rows and the rows of the roles.
 *
 * The table (serve_config_table: command.h) is made of two parts, at the first call:
 *
 *     SERVE_CONFIG    rows that serve itself reads, or explains in another way than a role
 *     inherited       each other row of gen-worker, ctx-worker and router, as in their tables, except those
 *                     that serve decides (serve_decides)
 *
 * So a new row of a role is also a row of serve. A value goes to each role whose table has the row
 * (serve_hands_on). Rows with the same name have the same type, bounds and default in all tables: tests/cli
 * compares them.
 *
 * Thread: main.
 */
#pragma once

#include "cli/command.h"
#include "worker_common/worker_config.h"

enum serve_restart { SERVE_RESTART_ALWAYS, SERVE_RESTART_NEVER };

#define SERVE_CONFIG(X)                                                                            \
    CONFIG_COMMON_ROWS(X)                                                                          \
    X(n_context_workers, U32(0, 16), "1", "processes",                                             \
      "context workers; 0: generation workers compute all prompts")                                \
    X(n_generation_workers, U32(1, 16), "1", "processes", "generation workers")                    \
    X(restart, WORD(enum serve_restart, "always|never"), "always", "",                             \
      "what follows when a process ends unexpectedly: always: it is restarted, after pauses that " \
      "grow; never: all processes stop")                                                           \
    X(grpc_address, STRING, "127.0.0.1:50051", "", "address of the public API")                    \
    X(http_address, STRING, "127.0.0.1:8000", "",                                                  \
      "address of the OpenAI-compatible HTTP API; empty: no such port")                            \
    X(engine_address, STRING, "", "",                                                              \
      "address of the gRPC APIs by which gateways drive an engine (docs/gateways.md), in clear "   \
      "text and without tokens; empty: no such port")                                              \
    X(control_address, STRING, "127.0.0.1:50052", "", "address of the router's control port")      \
    X(health_address, STRING, "127.0.0.1:50053", "", "address of the router's health port")        \
    X(advertise_address, STRING, "", "",                                                           \
      "host at which others reach the router's non-loopback ports; empty: the bound address, or "  \
      "that of a network interface")                                                               \
    X(quiet, BOOL, "no", "", "print nothing on standard output when the service is ready")         \
    X(ports_file, STRING, "", "",                                                                  \
      "file to which the router's bound addresses are written, as JSON")                           \
    X(parent_pid, HIDDEN(U32(0, 4194304)), "0", "", "process whose end stops this one; 0: none")   \
    X(dry_run, BOOL, "no", "",                                                                     \
      "print what each role would create and allocate, and whether it fits now, then exit")        \
    X(insecure, BOOL, "no", "", "allow non-loopback addresses without TLS")                        \
    X(cluster_key, STRING, "", "path",                                                             \
      "file with the key that all processes share; empty: a new key for this run")                 \
    X(drain_delay_ms, DURATION_MS(0, 3600000), "0", "ms",                                          \
      "after a stop signal, time in which the router reports not ready but still accepts "         \
      "requests")                                                                                  \
    X(drain_limit_ms, DURATION_MS(0, 3600000), "30s", "ms",                                        \
      "longest time that a stop waits for open requests")                                          \
    X(kv_room, HIDDEN(SIZE(0, CONFIG_NO_MAX)), "0", "bytes",                                       \
      "what the machine had free before the workers started; 0: what it has now")                  \
    X(ucx_net_devices, STRING, "", "", "network devices of the data port; empty: lo")              \
    X(local_prefill, BOOL, "yes", "",                                                              \
      "compute a prompt locally when its KV transfer has failed, or when no context worker is "    \
      "ready")                                                                                     \
    KV_TRANSPORT_CONFIG_ROW(X)                                                                     \
    X(core_dumps, BOOL, "no", "",                                                                  \
      "write a core file after a crash, and allow debuggers: both expose prompts and keys")        \
    X(seccomp, WORD(enum process_seccomp, "off|on"), "off", "",                                    \
      "on: once a process serves, a system call that no role needs ends it")                       \
    TLS_CONFIG_ROWS(X)

/* The member of any inherited row. */
union serve_value {
    bool is_on;
    uint32_t u32;
    uint64_t u64;
    double f64;
    const char *text;
    struct config_list list;
};

struct serve_config {
    SERVE_CONFIG(CONFIG_MEMBER_)
    union serve_value inherited[CONFIG_ROWS_MAX];
};

#define SERVE_VALUE_MAX 64

/* A row of the roles that serve does not have: its value follows from what serve starts. */
bool serve_decides(const char *key);
/* Whether serve's row is passed to the role with that table; only the router has public ports. */
bool serve_hands_on(const struct config_row *row, const struct config_table *role, bool is_router);
/* Of a LIST. */
const struct config_list *serve_row_list(const struct config_row *row,
                                         const struct serve_config *values);
/* The value of another row as text for a flag: the text of a STRING itself, else in buffer. */
const char *serve_row_format(const struct config_row *row, const struct serve_config *values,
                             char buffer[SERVE_VALUE_MAX]);
