#include "worker_common/adapter_loader.h"

#include "base/adapter_id.h"
#include "base/cond.h"
#include "process/admin_service.h"
#include "worker_common/adapter_set.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct adapter_loader {
    struct adapter_set *set;
    const char *folder;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t ended;
    pthread_t thread;
    bool has_thread; /* to be joined */
    bool is_busy;    /* it reads; else it answers at most, and does not need the mutex any more */
    bool is_stopped;
};

struct load {
    struct adapter_loader *loader;
    struct rpc_call *call; /* held */
    char name[ADAPTER_NAME_MAX + 1];
    char folder[NAME_MAX + 1];
};

static void fail(struct rpc_call *call, enum status status, const struct error *error)
{
    rpc_call_fail_status(call, status, "%s", error->text[0] ? error->text : status_text(status));
}

/* ---- where an adapter is ---- */

/* A name in the configured folder, and no way out of it. */
static enum status check_folder(const struct adapter_loader *loader, const char *folder,
                                struct error *error)
{
    if (!loader->set || !loader->folder[0])
        return error_set(error, STATUS_UNSUPPORTED,
                         "adapter_folder is not set: adapters are loaded at the start alone");
    if (folder[0] && folder[0] != '.' && !strchr(folder, '/') && strlen(folder) <= NAME_MAX)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "folder is \"%.100s\", expected the name of a folder in adapter_folder: 1 to "
                     "%d bytes without / and no point at its beginning",
                     folder, NAME_MAX);
}

/* Without links, which may lead to places in adapter_folder alone. */
static enum status find(const struct load *load, char path_out[PATH_MAX], struct error *error)
{
    const char *all = load->loader->folder;
    char home[PATH_MAX], path[PATH_MAX];
    if (!realpath(all, home))
        return error_set(error, errno_status(errno), "adapter_folder is \"%.150s\": %s", all,
                         strerror(errno));
    const size_t n_home = strcmp(home, "/") == 0 ? 0 : strlen(home);
    const int n = snprintf(path, sizeof path, "%s/%s", home, load->folder);
    if (n < 0 || (size_t)n >= sizeof path)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "folder is \"%.100s\": its path is longer than %d bytes", load->folder,
                         PATH_MAX);
    if (!realpath(path, path_out))
        return error_set(error, errno_status(errno),
                         "folder is \"%.100s\", in adapter_folder %.100s: %s", load->folder, all,
                         strerror(errno));
    if (strncmp(path_out, home, n_home) == 0 && path_out[n_home] == '/')
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "folder is \"%.100s\", which is a link out of adapter_folder %.100s",
                     load->folder, all);
}

/* ---- loading ---- */

static void *run(void *arg)
{
    struct load *load = arg;
    struct adapter_loader *loader = load->loader;
    struct error error = {""};
    struct adapter_id id;
    char path[PATH_MAX];
    enum status status = find(load, path, &error);
    if (status == STATUS_OK)
        status = adapter_set_add(loader->set, load->name, path, &error, &id);
    const uint64_t bytes = adapter_set_bytes(loader->set);
    /* Who hears the answer may ask for the next one. */
    pthread_mutex_lock(&loader->mutex);
    loader->is_busy = false;
    pthread_cond_signal(&loader->ended);
    pthread_mutex_unlock(&loader->mutex);
    if (status == STATUS_OK)
        admin_service_loaded(load->call, &id, bytes);
    else
        fail(load->call, status, &error);
    rpc_call_release(load->call);
    free(load);
    return NULL;
}

/* Under the mutex. The thread becomes the owner of load, on success. */
static enum status start(struct adapter_loader *loader, struct load *load, struct error *error)
{
    if (loader->is_stopped)
        return STATUS_DRAINING;
    if (loader->is_busy)
        return error_set(error, STATUS_QUEUE_FULL,
                         "name is \"%s\", and another adapter is being loaded: ask again when it "
                         "is there",
                         load->name);
    if (loader->has_thread)
        pthread_join(loader->thread, NULL);
    loader->has_thread = pthread_create(&loader->thread, NULL, run, load) == 0;
    loader->is_busy = loader->has_thread;
    if (!loader->has_thread)
        return STATUS_NO_THREAD;
    (void)pthread_setname_np(loader->thread, "adapter-loader");
    return STATUS_OK;
}

static enum status begin(struct adapter_loader *loader, struct rpc_call *call, const char *name,
                         const char *folder, struct error *error)
{
    TRY(adapter_name_check(name, "name", error));
    TRY(check_folder(loader, folder, error));
    struct load *load = calloc(1, sizeof *load);
    if (!load)
        return STATUS_NO_MEMORY;
    load->loader = loader;
    load->call = rpc_call_share(call);
    snprintf(load->name, sizeof load->name, "%s", name);
    snprintf(load->folder, sizeof load->folder, "%s", folder);
    pthread_mutex_lock(&loader->mutex);
    const enum status status = start(loader, load, error);
    pthread_mutex_unlock(&loader->mutex);
    if (status != STATUS_OK) {
        rpc_call_release(call);
        free(load);
    }
    return status;
}

void adapter_loader_load(struct adapter_loader *loader, struct rpc_call *call, const char *name,
                         const char *folder)
{
    struct error error = {""};
    const enum status status = begin(loader, call, name, folder, &error);
    if (status != STATUS_OK)
        fail(call, status, &error);
}

void adapter_loader_unload(struct adapter_loader *loader, struct rpc_call *call, const char *name)
{
    struct error error = {""};
    enum status status = adapter_name_check(name, "name", &error);
    if (status == STATUS_OK)
        status = adapter_set_remove(loader->set, name, &error);
    if (status == STATUS_OK)
        admin_service_unloaded(call, adapter_set_bytes(loader->set));
    else
        fail(call, status, &error);
}

/* ---- the object ---- */

enum status adapter_loader_create(struct adapter_set *set, const char *folder,
                                  struct adapter_loader **loader_out)
{
    struct adapter_loader *loader = calloc(1, sizeof *loader);
    if (!loader)
        return STATUS_NO_MEMORY;
    loader->set = set;
    loader->folder = folder;
    pthread_mutex_init(&loader->mutex, NULL);
    cond_init(&loader->ended);
    *loader_out = loader;
    return STATUS_OK;
}

bool adapter_loader_stop(struct adapter_loader *loader, uint64_t until_ns)
{
    if (!loader)
        return true;
    pthread_mutex_lock(&loader->mutex);
    loader->is_stopped = true;
    while (loader->is_busy && cond_wait_until(&loader->ended, &loader->mutex, until_ns))
        ;
    const bool has_ended = !loader->is_busy;
    pthread_mutex_unlock(&loader->mutex);
    if (has_ended && loader->has_thread) { /* from now on main's alone */
        pthread_join(loader->thread, NULL);
        loader->has_thread = false;
    }
    return has_ended;
}

void adapter_loader_destroy(struct adapter_loader *loader)
{
    if (!loader)
        return;
    assert(loader->is_stopped && !loader->has_thread);
    pthread_cond_destroy(&loader->ended);
    pthread_mutex_destroy(&loader->mutex);
    free(loader);
}
