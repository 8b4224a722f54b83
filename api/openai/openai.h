/*
 * openai - the door of the OpenAI-compatible HTTP API, on a port of its own (http_address):
 *
 *     POST /v1/chat/completions, /v1/completions     tokens, whole or as server-sent events
 *     GET  /v1/models, /v1/models/NAME, /health      what is served; whether requests can be placed
 *
 * Thread: main, as router/doors.h says.
 */
#pragma once

#include "router/doors.h"

extern const struct door openai_door;
