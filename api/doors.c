#include "api/doors.h"

#include "api/kvferry_v1/kvferry_v1.h"
#include "api/openai/openai.h"
#include "api/vllm_engine/vllm_engine.h"
#include "api/vllm_inference/vllm_inference.h"

static const struct door *const DOORS[] = {
    &kvferry_v1_door,
    &openai_door,
    &vllm_engine_door,
    &vllm_inference_door,
};

const struct door_table api_doors = {.doors = DOORS, .n = sizeof DOORS / sizeof *DOORS};
