/* adapter - lists the LoRA adapters of a process, or lets a worker load or unload one while it serves. */
#include "base/adapter_id.h"
#include "cli/client/admin_client.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "rpc/borrow.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ADAPTER_CONFIG(X)                                                                          \
    X(server, STRING, "127.0.0.1:50052", "",                                                       \
      "address of the control port of a worker, or of a router to see its adapters")               \
    X(load, STRING, "", "name=folder",                                                             \
      "load an adapter under that name; the folder is one in the worker's adapter_folder")         \
    X(unload, STRING, "", "name", "unload the adapter of that name")                               \
    ADMIN_CLIENT_ROWS(X)

CONFIG_DECLARE(adapter_config, ADAPTER_CONFIG);
CONFIG_DEFINE(adapter_config, ADAPTER_CONFIG, CONFIG_NO_ALIASES)

struct adapter_task {
    const struct adapter_config *values;
    const char *address;
    struct process_state state;
};

/* text: "name=folder". */
static enum status split(const char *text, char name_out[ADAPTER_NAME_MAX + 2],
                         const char **folder_out, struct rpc_error *error)
{
    const char *end = strchr(text, '=');
    if (!end || end == text || !end[1]) {
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, "load", text,
                      "load is \"%.100s\", expected NAME=FOLDER", text);
        return STATUS_INVALID_ARGUMENT;
    }
    snprintf(name_out, ADAPTER_NAME_MAX + 2, "%.*s", (int)(end - text), text);
    *folder_out = end + 1;
    return STATUS_OK;
}

static enum status load(const struct adapter_task *task, struct rpc_client *client,
                        struct rpc_error *error)
{
    char name[ADAPTER_NAME_MAX + 2];
    const char *folder;
    Kvferry__Internal__V1__LoadAdapterRequest message =
        KVFERRY__INTERNAL__V1__LOAD_ADAPTER_REQUEST__INIT;
    TRY(split(task->values->load, name, &folder, error));
    message.name = name;
    message.folder = borrow(folder);
    const struct rpc_request request = {
        .path = "/kvferry.internal.v1.AdminService/LoadAdapter",
        .message = &message.base,
        .response = &kvferry__internal__v1__load_adapter_response__descriptor,
    };
    return admin_client_call(client, task->address, task->values->deadline_ms, &request, error);
}

static enum status unload(const struct adapter_task *task, struct rpc_client *client,
                          struct rpc_error *error)
{
    Kvferry__Internal__V1__UnloadAdapterRequest message =
        KVFERRY__INTERNAL__V1__UNLOAD_ADAPTER_REQUEST__INIT;
    message.name = borrow(task->values->unload);
    const struct rpc_request request = {
        .path = "/kvferry.internal.v1.AdminService/UnloadAdapter",
        .message = &message.base,
        .response = &kvferry__internal__v1__unload_adapter_response__descriptor,
    };
    return admin_client_call(client, task->address, task->values->deadline_ms, &request, error);
}

static enum status run(void *arg, const struct admin_clients *clients, struct rpc_error *error)
{
    struct adapter_task *task = arg;
    const uint64_t limit_ms = task->values->deadline_ms;
    assert(clients->server && task->address[0]);
    TRY(admin_client_ask(clients->server, task->address, limit_ms, &task->state, error));
    if (task->values->unload[0]) /* first: it makes room, and frees its name */
        TRY(unload(task, clients->server, error));
    if (task->values->load[0])
        TRY(load(task, clients->server, error));
    return admin_client_ask(clients->server, task->address, limit_ms, &task->state, error);
}

static void print(const struct model_card *card)
{
    for (uint32_t i = 0; i < card->n_adapters; i++) {
        char digest[ADAPTER_DIGEST_BYTES];
        adapter_digest_format(card->adapters[i].digest, digest);
        printf("%s %s\n", digest, card->adapters[i].name);
    }
}

int adapter_main(const struct config_input *input)
{
    struct adapter_config values;
    struct config *config;
    int exit_status;
    if (command_configure(adapter_config_table(), input, &values, &config, &exit_status))
        return exit_status;
    interrupt_ends();
    const struct admin_client_options options = ADMIN_CLIENT_OPTIONS(&values);
    char address[ADDRESS_TEXT_MAX];
    static struct adapter_task task;
    task = (struct adapter_task){.values = &values, .address = address};
    exit_status = admin_client_main(input->command, &options, address, run, &task);
    if (exit_status == EXIT_SUCCESS)
        print(&task.state.model);
    config_destroy(config);
    return exit_status;
}
