/* frame_head - the head of an HTTP/2 frame as it is on the wire. */
#pragma once

#include "rpc/relay/frame.h"

#include <stdint.h>

void frame_head_put(uint8_t out[FRAME_HEAD_BYTES], uint32_t length, enum frame_type type,
                    uint8_t flags, uint32_t stream);
