/*
 * engine_door - what a door of gateways is, whatever its protocol: the members that doors.h asks for, and bounds of its methods.
 *
 * Thread: as struct door; ask is the handler's that runs.
 */
#pragma once

#include "api/engine/engine_ask.h"
#include "api/engine/engine_calls.h"
#include "api/engine/engine_place.h"

#define ENGINE_IDS_MAX         (1u << 20) /* token ids in one message */
#define ENGINE_SMALL_BYTES_MAX 4096u      /* of a message that asks for nothing but to be told */

struct kv_event_stream;

struct engine_door {
    struct engine_place place;
    struct engine_calls calls;
    struct engine_ask ask;
    struct kv_event_stream *kv_events; /* api/vllm_engine's own; NULL: it is another door */
};

/* create and destroy of a struct door. NO_MEMORY, and as engine_place_init and engine_calls_init. */
MUST_CHECK enum status engine_door_create(const struct door_place *place, struct error *error,
                                          void **door_out);
void engine_door_destroy(void *arg);
