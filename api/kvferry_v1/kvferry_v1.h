/*
 * kvferry_v1 - the door of the project's own gRPC API: GenerationService and ModelService on the public port.
 *
 * Thread: main, as router/doors.h says.
 */
#pragma once

#include "router/doors.h"

extern const struct door kvferry_v1_door;
