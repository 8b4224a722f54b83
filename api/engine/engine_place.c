#include "api/engine/engine_place.h"

#include <stdlib.h>
#include <string.h>

enum status engine_place_init(struct engine_place *place, const struct door_place *from,
                              struct error *error)
{
    *place = (struct engine_place){.process = from->process,
                                   .intake = from->intake,
                                   .model = from->model,
                                   .config = from->config};
    char *whole = realpath(from->folder, NULL); /* a gateway's own folder is another one */
    place->folder = whole ? whole : strdup(from->folder);
    if (!place->folder)
        return error_set(error, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
    return engine_model_read(place->folder, &place->facts, error);
}

void engine_place_finish(struct engine_place *place)
{
    union {
        const char *in;
        char *out;
    } folder = {.in = place->folder};
    free(folder.out);
    *place = (struct engine_place){0};
}
