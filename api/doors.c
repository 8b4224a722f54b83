#include "api/doors.h"

#include "api/kvferry_v1/kvferry_v1.h"
#include "api/openai/openai.h"

static const struct door *const DOORS[] = {
    &kvferry_v1_door,
    &openai_door,
};

const struct door_table api_doors = {.doors = DOORS, .n = sizeof DOORS / sizeof *DOORS};
