#include "frame_head.h"

#include <string.h>

void frame_head_put(uint8_t out[FRAME_HEAD_BYTES], uint32_t length, enum frame_type type,
                    uint8_t flags, uint32_t stream)
{
    const uint8_t head[FRAME_HEAD_BYTES] = {(uint8_t)(length >> 16),
                                            (uint8_t)(length >> 8),
                                            (uint8_t)length,
                                            (uint8_t)type,
                                            flags,
                                            (uint8_t)(stream >> 24),
                                            (uint8_t)(stream >> 16),
                                            (uint8_t)(stream >> 8),
                                            (uint8_t)stream};
    memcpy(out, head, sizeof head);
}
