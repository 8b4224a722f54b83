#include "worker_common/adapter_loader.h"

#include "process/adapter_codec.h"
#include "proto/kvferry/internal/v1/admin.pb-c.h"
#include "worker_common/adapter_set.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATH_BYTES_MAX 1024u

struct load {
    struct adapter_loader *loader;
    struct rpc_call *call; /* held */
    char name[ADAPTER_NAME_MAX + 1];
    char path[PATH_BYTES_MAX];
};

static void fail(struct rpc_call *call, enum status status, const struct error *error)
{
    rpc_call_fail_status(call, status, "%s", error->text[0] ? error->text : status_text(status));
}

/* A name in the folder, and no way out of it. */
static enum status check_folder(const struct adapter_loader *loader, const char *folder,
                                struct error *error)
{
    if (!loader->set || !loader->folder || !loader->folder[0])
        return error_set(error, STATUS_UNSUPPORTED,
                         "adapter_folder is not set: adapters are loaded at the start alone");
    if (folder[0] && folder[0] != '.' && !strchr(folder, '/') &&
        strlen(folder) + strlen(loader->folder) + 2 <= PATH_BYTES_MAX)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "folder is \"%.100s\", expected the name of a folder in adapter_folder, "
                     "without / and no point at its beginning",
                     folder);
}

static void *run(void *arg)
{
    struct load *load = arg;
    struct adapter_loader *loader = load->loader;
    struct adapter_id id;
    struct error error = {""};
    const enum status status = adapter_set_add(loader->set, load->name, load->path, &error, &id);
    if (status == STATUS_OK) {
        Kvferry__Internal__V1__LoadAdapterResponse response =
            KVFERRY__INTERNAL__V1__LOAD_ADAPTER_RESPONSE__INIT;
        struct adapter_message adapter;
        adapter_encode(&id, &adapter);
        response.adapter = &adapter.message;
        response.adapter_bytes = adapter_set_bytes(loader->set);
        rpc_call_reply(load->call, &response.base);
    } else {
        fail(load->call, status, &error);
    }
    rpc_call_release(load->call);
    free(load);
    atomic_store(&loader->is_busy, false);
    return NULL;
}

static enum status start(struct adapter_loader *loader, struct rpc_call *call, const char *name,
                         const char *folder, struct error *error)
{
    struct load *load = calloc(1, sizeof *load);
    if (!load)
        return STATUS_NO_MEMORY;
    load->loader = loader;
    load->call = rpc_call_share(call);
    snprintf(load->name, sizeof load->name, "%s", name);
    snprintf(load->path, sizeof load->path, "%s/%s", loader->folder, folder);
    if (loader->has_thread) /* it has ended, or is about to */
        pthread_join(loader->thread, NULL);
    loader->has_thread = pthread_create(&loader->thread, NULL, run, load) == 0;
    if (loader->has_thread)
        return STATUS_OK;
    rpc_call_release(load->call);
    free(load);
    return error_set(error, STATUS_NO_THREAD, "%s", status_text(STATUS_NO_THREAD));
}

void adapter_loader_load(struct adapter_loader *loader, struct rpc_call *call, const char *name,
                         const char *folder)
{
    struct error error = {""};
    enum status status = check_folder(loader, folder, &error);
    if (status == STATUS_OK)
        status = adapter_name_check(name, "name", &error);
    if (status == STATUS_OK &&
        (atomic_load(&loader->is_stopped) || atomic_exchange(&loader->is_busy, true)))
        status = error_set(&error, STATUS_QUEUE_FULL,
                           "another adapter is being loaded: ask again when it is there");
    else if (status == STATUS_OK) {
        status = start(loader, call, name, folder, &error);
        if (status != STATUS_OK)
            atomic_store(&loader->is_busy, false);
    }
    if (status != STATUS_OK)
        fail(call, status, &error);
}

void adapter_loader_unload(struct adapter_loader *loader, struct rpc_call *call, const char *name)
{
    struct error error = {""};
    const enum status status = adapter_set_remove(loader->set, name, &error);
    if (status != STATUS_OK) {
        fail(call, status, &error);
        return;
    }
    Kvferry__Internal__V1__UnloadAdapterResponse response =
        KVFERRY__INTERNAL__V1__UNLOAD_ADAPTER_RESPONSE__INIT;
    response.adapter_bytes = adapter_set_bytes(loader->set);
    rpc_call_reply(call, &response.base);
}

void adapter_loader_stop(struct adapter_loader *loader)
{
    atomic_store(&loader->is_stopped, true);
    if (loader->has_thread)
        pthread_join(loader->thread, NULL);
    loader->has_thread = false;
}
