/*
 * model_service - the public gRPC service ModelService: which model is served, and what it is.
 *
 * Thread: handlers on the queue thread.
 */
#pragma once

#include "router/served_model.h"

struct model_service {
    const struct served_model *model;
};

/* The row of a server's table. */
struct rpc_service model_service_row(struct model_service *service);
