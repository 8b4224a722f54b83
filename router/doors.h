/*
 * doors - what a router knows of the protocols that it is asked by: a table of doors, each a folder of api/.
 *
 *     create, services  before the ports open: the public gRPC port gets the services of all doors
 *     engine_services   the same for the port of gateways (engine_address)
 *     listen            after it: ports of the door's own
 *     drain             nothing new is taken over ports of its own from now on; running calls continue. It does not wait
 *     close             requests have ended, or their time is over: after a moment for the last replies no handler of the door
 *                       runs any more, nor will
 *     destroy           all its calls have been released
 *
 * Thread: main.
 */
#pragma once

#include "router/admission/admission.h"
#include "router/intake.h"
#include "router/router_config.h"
#include "router/served_model.h"

#define DOOR_SERVICES_MAX 4u

/* What a door is opened with; all of it outlives the door. */
struct door_place {
    const char *folder; /* of the model, as it was given */
    struct process *process;
    struct intake *intake;
    struct served_model *model;
    struct admission *admission;
    const struct router_config *config;
};

struct door {
    const char *name;
    MUST_CHECK enum status (*create)(const struct door_place *place, struct error *error,
                                     void **door_out);
    /* How many rows it wrote, at most DOOR_SERVICES_MAX; they live until destroy. NULL: none. */
    size_t (*services)(void *door, struct rpc_service *services_out);
    /* The same of the engine port. */
    size_t (*engine_services)(void *door, struct rpc_service *services_out);
    /* What follows may be NULL: the door has no port of its own. */
    MUST_CHECK enum status (*listen)(void *door, struct error *error);
    void (*drain)(void *door);
    void (*close)(void *door);
    void (*destroy)(void *door);
};

/* Of a program: see api/doors.h. */
struct door_table {
    const struct door *const *doors; /* [n] */
    size_t n;
};
