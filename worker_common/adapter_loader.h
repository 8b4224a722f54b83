/*
 * adapter_loader - loads and unloads adapters of a worker by calls of its operator, while requests run.
 *
 * A load reads files, so it has a thread; one at a time. Its folder is in the configured one: a caller names no other place.
 *
 * Thread: the calls on the queue thread; stop on main.
 */
#pragma once

#include "base/status.h"
#include "rpc/server/call.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct adapter_set;

struct adapter_loader {
    /* Set before process_serving: */
    struct adapter_set *set; /* NULL: the worker has no adapters */
    const char *folder;      /* "": none may be loaded */
    /* Its own: */
    pthread_t thread;
    bool has_thread; /* to be joined */
    atomic_bool is_busy, is_stopped;
};

/* Both end the call, the first one when the adapter is there or is refused. name and folder are copied. */
void adapter_loader_load(struct adapter_loader *loader, struct rpc_call *call, const char *name,
                         const char *folder);
void adapter_loader_unload(struct adapter_loader *loader, struct rpc_call *call, const char *name);
/* Waits for a load that is under way; later ones are refused. Zeros are fine. */
void adapter_loader_stop(struct adapter_loader *loader);
