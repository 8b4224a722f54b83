/*
 * vllm_inference - the door of vllm.Inference and vllm.Control on the engine port: docs/gateways.md.
 *
 * Thread: main, as router/doors.h says.
 */
#pragma once

#include "router/doors.h"

extern const struct door vllm_inference_door;
