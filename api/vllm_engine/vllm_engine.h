/*
 * vllm_engine - the door of vllm.grpc.engine.VllmEngine on the engine port: docs/gateways.md.
 *
 * Thread: main, as router/doors.h says.
 */
#pragma once

#include "router/doors.h"

extern const struct door vllm_engine_door;
