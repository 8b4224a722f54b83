/* render_frame: whatever the other end of a template socket sends, it is a frame that encodes to the same bytes, within its
 * bounds, or it ends the connection. The first byte: the reader's bound, in units of 16. */
#include "base/clock.h"
#include "text/render_frame.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

static void check_frame(const struct render_frame *frame, const uint8_t *bytes, uint32_t body_max)
{
    uint8_t again[RENDER_FRAME_BYTES];
    assert(frame->body_bytes <= body_max);
    assert(frame->kind >= RENDER_TOKENS && frame->kind <= RENDER_ANSWER);
    render_frame_encode(frame, again);
    assert(memcmp(again, bytes, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes)
{
    int ends[2];
    size_t at = 1;
    if (n_bytes < 1 || n_bytes > 32768)
        return 0;
    const uint32_t body_max = 16u * data[0];
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
        return 0;
    assert(write(ends[0], data + 1, n_bytes - 1) == (ssize_t)(n_bytes - 1));
    close(ends[0]);
    for (;;) {
        struct render_frame frame;
        char *body;
        enum status status = render_frame_receive(ends[1], body_max, clock_now_ns() + 10 * NS_PER_S,
                                                  &frame, &body);
        if (status != STATUS_OK) {
            assert(status == STATUS_PEER_LOST || status == STATUS_CORRUPT);
            break;
        }
        assert(n_bytes - at >= RENDER_FRAME_BYTES + (size_t)frame.body_bytes);
        check_frame(&frame, data + at, body_max);
        assert(memcmp(body, data + at + RENDER_FRAME_BYTES, frame.body_bytes) == 0);
        at += RENDER_FRAME_BYTES + frame.body_bytes;
        free(body);
    }
    close(ends[1]);
    return 0;
}
