#include "api/engine/engine_door.h"

#include <stdlib.h>

void engine_door_destroy(void *arg)
{
    struct engine_door *door = arg;
    if (!door)
        return;
    engine_calls_finish(&door->calls);
    engine_place_finish(&door->place);
    free(door);
}

enum status engine_door_create(const struct door_place *place, struct error *error, void **door_out)
{
    struct engine_door *door = calloc(1, sizeof *door);
    if (!door)
        return error_set(error, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
    enum status status = engine_place_init(&door->place, place, error);
    if (status == STATUS_OK)
        status = engine_calls_init(&door->calls, &door->place, error);
    if (status == STATUS_OK)
        *door_out = door;
    else
        engine_door_destroy(door);
    return status;
}
