/*
 * engine_place - what a door of gateways is opened with, and what it knows.
 *
 * Thread: any, once the door is created.
 */
#pragma once

#include "api/engine/engine_model.h"
#include "router/doors.h"

struct engine_place {
    const char *folder; /* of the model, absolute where that can be told */
    struct process *process;
    struct intake *intake;
    struct served_model *model;
    const struct router_config *config;
    struct engine_model facts;
};

/* NO_MEMORY, and what engine_model_read says. */
MUST_CHECK enum status engine_place_init(struct engine_place *place, const struct door_place *from,
                                         struct error *error);
/* A zeroed one is fine. */
void engine_place_finish(struct engine_place *place);
