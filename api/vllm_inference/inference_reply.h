/*
 * inference_reply - the messages of vllm.Inference: GenerateResponse.
 *
 * Thread: as engine_form.
 */
#pragma once

#include "api/engine/engine_call.h"

extern const struct engine_form inference_reply_form;
