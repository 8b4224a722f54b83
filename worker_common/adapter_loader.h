/*
 * adapter_loader - loads and unloads adapters of a worker by calls of its operator, while requests run.
 *
 * A load reads files, so it has a thread; one at a time, others are refused. It reads a folder in the configured one, and follows no link
 * out of that: a caller names no other place. Who may write there is trusted: links that change during a load are not noticed.
 *
 * Thread: create, stop and destroy on main; the calls on any.
 */
#pragma once

#include "base/status.h"
#include "rpc/server/call.h"

#include <stdbool.h>
#include <stdint.h>

struct adapter_loader;
struct adapter_set;

/* set NULL: the worker has no adapters. folder "": none may be loaded. Both are borrowed until destroy. */
MUST_CHECK enum status adapter_loader_create(struct adapter_set *set, const char *folder,
                                             struct adapter_loader **loader_out);
/* Both end the call, the first one when the adapter is there or is refused. name and folder are copied. */
void adapter_loader_load(struct adapter_loader *loader, struct rpc_call *call, const char *name,
                         const char *folder);
void adapter_loader_unload(struct adapter_loader *loader, struct rpc_call *call, const char *name);
/* Later loads are refused. Waits for one that is under way, and for its answer. False: it still reads at until_ns, so that loader
 * and set must stay. NULL is fine. */
MUST_CHECK bool adapter_loader_stop(struct adapter_loader *loader, uint64_t until_ns);
/* It was stopped, and no call comes any more. NULL is fine. */
void adapter_loader_destroy(struct adapter_loader *loader);
