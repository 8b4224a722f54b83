#include "api/kvferry_v1/kvferry_v1.h"

#include "api/kvferry_v1/generation_service.h"
#include "api/kvferry_v1/model_service.h"

#include <stdlib.h>

struct kvferry_v1 {
    struct generation_service generations;
    struct model_service models;
};

static enum status create(const struct door_place *place, struct error *error, void **door_out)
{
    struct kvferry_v1 *door = calloc(1, sizeof *door);
    if (!door)
        return error_set(error, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
    door->generations.intake = place->intake;
    door->generations.scratch.intake = place->intake;
    door->generations.texts = (struct text_calls){
        .intake = place->intake, .reply_bytes_max = place->config->reply_bytes_max};
    door->models.model = place->model;
    *door_out = door;
    return STATUS_OK;
}

static size_t services(void *arg, struct rpc_service *services_out)
{
    struct kvferry_v1 *door = arg;
    services_out[0] = generation_service_row(&door->generations);
    services_out[1] = model_service_row(&door->models);
    return 2;
}

const struct door kvferry_v1_door = {
    .name = "kvferry.v1", .create = create, .services = services, .destroy = free};
