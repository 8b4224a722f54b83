/*
 * doors - the protocols of this program: one row each. A door is a folder of api/ and can be deleted with its row.
 *
 * Thread: any (constant).
 */
#pragma once

#include "router/doors.h"

extern const struct door_table api_doors;
