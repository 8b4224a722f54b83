/*
 * engine_reply - the messages of VllmEngine's Generate.
 *
 * Thread: as engine_form.
 */
#pragma once

#include "api/engine/engine_call.h"

extern const struct engine_form engine_reply_form;
