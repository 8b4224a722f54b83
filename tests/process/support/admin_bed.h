/*
 * admin_bed - the AdminService of a process that is made up, and a caller of it, over a real connection.
 *
 * All functions assert (Criterion) on anything unexpected.
 */
#pragma once

#include "process/admin_service.h"
#include "rpc/client/client.h"

struct admin_bed {
    struct process process;       /* it serves; nothing else of it is there */
    struct admin_service service; /* of the test, set before the bed is opened */
    struct rpc_runtime *server_runtime, *client_runtime;
    struct rpc_server *server;
    struct rpc_client *client;
    struct rpc_channel *channel;
};

void admin_bed_open(struct admin_bed *bed);
/* No call is under way. */
void admin_bed_close(struct admin_bed *bed);

/* What a call came to. */
struct admin_answer {
    struct rpc_error error; /* status OK when it succeeded */
    char name[80], digest[40];
    uint64_t adapter_bytes;
};

/* Each returns the status of the error. Any thread. */
enum status admin_bed_load(struct admin_bed *bed, const char *name, const char *folder,
                           struct admin_answer *answer_out);
enum status admin_bed_unload(struct admin_bed *bed, const char *name,
                             struct admin_answer *answer_out);
