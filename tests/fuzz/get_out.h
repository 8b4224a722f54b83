/* get_out - a piece that the reader has asked for and that has not come: each of another size and place. */
#pragma once

#include "kvtransfer/transport/get_table.h"

#include <string.h>

static inline void get_out(struct get *get, uint32_t index, struct transport_peer *peer,
                           uint8_t *target)
{
    *get = (struct get){.state = GET_OUT,
                        .generation = index,
                        .peer = peer,
                        .piece = {.block_index = index,
                                  .remote_block = 10 + index,
                                  .offset = 16 * index,
                                  .bytes = 16 * (index + 1),
                                  .target = target}};
    memset(get->id.bytes, (int)index, sizeof get->id.bytes);
}
