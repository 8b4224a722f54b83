#include "api/engine/engine_view.h"

#include "rpc/server/call.h"

#include <stdio.h>

enum status engine_view_card(const struct engine_place *place, struct rpc_call *rpc,
                             struct model_card *card_out)
{
    enum status status = process_refuses(place->process);
    if (status != STATUS_LOADING)
        status = served_model_card(place->model, card_out);
    if (status != STATUS_OK)
        rpc_call_fail_status(rpc, status, "%s", status_text(status));
    return status;
}

void engine_view_read(const struct engine_place *place, struct engine_view *view_out)
{
    struct dispatch_view requests;
    struct model_card card;
    struct worker_room room;
    *view_out = (struct engine_view){.is_ready = atomic_load(&place->process->is_ready) &&
                                                 !process_is_leaving(place->process),
                                     .running_max = place->config->requests_max};
    if (process_refuses(place->process) == STATUS_LOADING)
        return;
    dispatch_look(place->intake->dispatch, &requests);
    view_out->running = requests.live - requests.waiting;
    view_out->waiting = requests.waiting + early_requests_count(place->intake->early);
    worker_clients_room(place->intake->workers, &room);
    view_out->blocks = room.blocks;
    view_out->blocks_used = room.blocks_usable < room.blocks ? room.blocks - room.blocks_usable : 0;
    if (served_model_card(place->model, &card) != STATUS_OK || !card.has_geometry)
        return;
    view_out->block_tokens = card.geometry.block_tokens;
    snprintf(view_out->dtype, sizeof view_out->dtype, "%s", kv_dtype_name(card.geometry.dtype));
}
