#include "device/stage.h"

#include <assert.h>
#include <stdlib.h>

struct arena {
    struct device_memory memory;
    struct device_ticket until; /* the end of its last use */
};

struct stage {
    struct device *device;
    enum device_queue queue;
    size_t bytes;
    struct arena arenas[STAGE_ARENAS];
    uint32_t turn;
    uint8_t *view; /* of the present arena, between take and send or drop */
    size_t n_taken;
    bool is_sent; /* between send and keep */
};

enum status stage_create(struct device *device, enum device_queue queue, size_t bytes,
                         struct stage **stage_out)
{
    assert(bytes > 0);
    struct stage *stage = calloc(1, sizeof *stage);
    if (!stage)
        return STATUS_NO_MEMORY;
    *stage = (struct stage){.device = device, .queue = queue, .bytes = bytes};
    for (uint32_t i = 0; i < STAGE_ARENAS; i++) {
        enum status status = device_allocate(device, DEVICE_STAGING, bytes,
                                             &stage->arenas[i].memory);
        if (status == STATUS_OK)
            continue;
        stage_destroy(stage);
        return status;
    }
    *stage_out = stage;
    return STATUS_OK;
}

void stage_destroy(struct stage *stage)
{
    if (!stage)
        return;
    assert(!stage->view && "what was taken was sent or dropped");
    for (uint32_t i = 0; i < STAGE_ARENAS; i++) {
        if (device_wait(stage->device, stage->arenas[i].until) == STATUS_DEVICE_LOST)
            assert(device_is_lost(stage->device) && "nothing reads it any more");
        device_free(stage->device, &stage->arenas[i].memory);
    }
    free(stage);
}

void stage_touch(struct stage *stage, struct thread_pool *threads)
{
    assert(!stage->view && !stage->is_sent);
    for (uint32_t i = 0; i < STAGE_ARENAS; i++)
        device_touch(stage->device, &stage->arenas[i].memory, threads);
}

enum status stage_take(struct stage *stage, size_t bytes, uint8_t **view_out)
{
    assert(!stage->view && !stage->is_sent);
    assert(bytes > 0 && bytes <= stage->bytes);
    struct arena *arena = &stage->arenas[(stage->turn + 1) % STAGE_ARENAS];
    TRY(device_wait(stage->device, arena->until));
    TRY(device_write_begin(stage->device, arena->memory.base, bytes, &stage->view));
    stage->n_taken = bytes;
    stage->turn = (stage->turn + 1) % STAGE_ARENAS;
    *view_out = stage->view;
    return STATUS_OK;
}

size_t stage_taken(const struct stage *stage)
{
    assert(stage->view);
    return stage->n_taken;
}

void stage_drop(struct stage *stage)
{
    assert(stage->view && !stage->is_sent);
    device_write_drop(stage->device, stage->view);
    stage->view = NULL;
}

enum status stage_send(struct stage *stage, const uint8_t **sent_out)
{
    return stage_send_part(stage, stage->n_taken, sent_out);
}

enum status stage_send_part(struct stage *stage, size_t bytes, const uint8_t **sent_out)
{
    struct arena *arena = &stage->arenas[stage->turn];
    assert(stage->view && !stage->is_sent && bytes > 0 && bytes <= stage->n_taken);
    device_write(stage->device, stage->queue, arena->memory.base, stage->view, bytes);
    stage->view = NULL;
    if (device_is_lost(stage->device))
        return STATUS_DEVICE_LOST;
    stage->is_sent = true;
    *sent_out = arena->memory.base;
    return STATUS_OK;
}

void stage_keep(struct stage *stage, struct device_ticket ticket)
{
    assert(stage->is_sent && ticket.queue == stage->queue);
    stage->arenas[stage->turn].until = ticket;
    stage->is_sent = false;
}
