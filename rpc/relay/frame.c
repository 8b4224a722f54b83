#include "rpc/relay/frame.h"

#include <assert.h>
#include <string.h>

static uint32_t get_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put_u32(uint8_t *p, uint32_t value)
{
    p[0] = (uint8_t)(value >> 24);
    p[1] = (uint8_t)(value >> 16);
    p[2] = (uint8_t)(value >> 8);
    p[3] = (uint8_t)value;
}

static struct frame_head decode(const uint8_t head[FRAME_HEAD_BYTES])
{
    return (struct frame_head){
        .length = (uint32_t)head[0] << 16 | (uint32_t)head[1] << 8 | head[2],
        .type = head[3],
        .flags = head[4],
        .stream = get_u32(head + 5) & 0x7fffffffu,
    };
}

static bool is_update(const uint8_t head[FRAME_HEAD_BYTES])
{
    struct frame_head found = decode(head);
    return found.type == FRAME_WINDOW_UPDATE &&
           found.length == FRAME_UPDATE_BYTES - FRAME_HEAD_BYTES;
}

size_t frame_walk(struct frame_walker *walker, const uint8_t *bytes, size_t n,
                  enum frame_step *step_out, struct frame_head *head_out)
{
    assert(n > 0 && walker->n_head < FRAME_HEAD_BYTES);
    *step_out = FRAME_STEP_PART;
    if (walker->n_left > 0) {
        size_t n_taken = n < walker->n_left ? n : walker->n_left;
        walker->n_left -= (uint32_t)n_taken;
        if (walker->n_left == 0)
            *step_out = FRAME_STEP_END;
        return n_taken;
    }
    size_t n_wanted = (size_t)FRAME_HEAD_BYTES - walker->n_head;
    size_t n_taken = n < n_wanted ? n : n_wanted;
    memcpy(walker->head + walker->n_head, bytes, n_taken);
    walker->n_head = (uint8_t)(walker->n_head + n_taken);
    if (n_taken == n_wanted) {
        *head_out = decode(walker->head);
        walker->n_head = 0;
        walker->n_left = head_out->length;
        *step_out = FRAME_STEP_HEAD;
    }
    return n_taken;
}

bool frame_is_boundary(const struct frame_walker *walker)
{
    return walker->n_head == 0 && walker->n_left == 0;
}

static void put_head(uint8_t *out, uint32_t length, enum frame_type type, uint32_t stream)
{
    assert(length < 1u << 24 && stream <= FRAME_STREAM_MAX);
    put_u32(out, length << 8);
    out[3] = (uint8_t)type;
    out[4] = 0;
    put_u32(out + 5, stream);
}

void frame_put_reset(uint8_t out[FRAME_RESET_BYTES], uint32_t stream, enum frame_error error)
{
    put_head(out, 4, FRAME_RST_STREAM, stream);
    put_u32(out + FRAME_HEAD_BYTES, error);
}

void frame_put_update(uint8_t out[FRAME_UPDATE_BYTES], uint32_t stream, uint32_t n_bytes)
{
    put_head(out, 4, FRAME_WINDOW_UPDATE, stream);
    put_u32(out + FRAME_HEAD_BYTES, n_bytes);
}

uint32_t frame_update_bytes(const uint8_t frame[FRAME_UPDATE_BYTES])
{
    return get_u32(frame + FRAME_HEAD_BYTES) & 0x7fffffffu;
}

size_t frame_missing(const uint8_t *bytes, size_t n)
{
    size_t n_wanted = FRAME_HEAD_BYTES;
    if (n >= FRAME_HEAD_BYTES && is_update(bytes))
        n_wanted = FRAME_UPDATE_BYTES;
    return n < n_wanted ? n_wanted - n : 0;
}

void frame_put_ping(uint8_t out[FRAME_PING_BYTES])
{
    static const uint8_t OPAQUE[8] = {'d', 'r', 'a', 'i', 'n', 'i', 'n', 'g'};
    put_head(out, sizeof OPAQUE, FRAME_PING, 0);
    memcpy(out + FRAME_HEAD_BYTES, OPAQUE, sizeof OPAQUE);
}

size_t frame_put_goaway(uint8_t out[FRAME_GOAWAY_MAX], uint32_t last_stream, enum frame_error error,
                        const char *text)
{
    size_t n_text = strnlen(text, FRAME_TEXT_MAX);
    put_head(out, (uint32_t)(8 + n_text), FRAME_GOAWAY, 0);
    put_u32(out + FRAME_HEAD_BYTES, last_stream);
    put_u32(out + FRAME_HEAD_BYTES + 4, error);
    memcpy(out + FRAME_HEAD_BYTES + 8, text, n_text);
    return FRAME_HEAD_BYTES + 8 + n_text;
}
