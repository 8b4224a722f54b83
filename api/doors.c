#include "api/doors.h"

#include "api/kvferry_v1/kvferry_v1.h"

static const struct door *const DOORS[] = {
    &kvferry_v1_door,
};

const struct door_table api_doors = {.doors = DOORS, .n = sizeof DOORS / sizeof *DOORS};
