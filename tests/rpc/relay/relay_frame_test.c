/* relay/frame: heads are found wherever the bytes are cut, and nothing else is looked at. */
#include "rpc/relay/frame.h"

#include <criterion/criterion.h>
#include <string.h>

/* clang-format off */
static const uint8_t THREE_FRAMES[] = {
    0, 0, 3, FRAME_DATA, FRAME_FLAG_END_STREAM, 0, 0, 0, 1, 'a', 'b', 'c',
    0, 0, 0, FRAME_SETTINGS, FRAME_FLAG_ACK, 0, 0, 0, 0,
    0, 0, 4, FRAME_RST_STREAM, 0, 0x80, 0, 1, 3, 0, 0, 0, 8, /* the reserved bit is set */
};
/* clang-format on */

struct seen {
    struct frame_head heads[4];
    uint32_t n_heads;
    uint32_t n_ends;
};

static void walk(struct frame_walker *walker, const uint8_t *bytes, size_t n, struct seen *seen)
{
    for (size_t i = 0; i < n;) {
        enum frame_step step;
        struct frame_head head;
        size_t n_walked = frame_walk(walker, bytes + i, n - i, &step, &head);
        cr_assert(n_walked > 0 && n_walked <= n - i);
        i += n_walked;
        if (step == FRAME_STEP_HEAD)
            seen->heads[seen->n_heads++] = head;
        if (step == FRAME_STEP_END || (step == FRAME_STEP_HEAD && head.length == 0))
            seen->n_ends++;
    }
}

Test(relay_frame, every_cut_of_the_bytes_gives_the_same_frames)
{
    for (size_t first = 0; first <= sizeof THREE_FRAMES; first++) {
        for (size_t second = first; second <= sizeof THREE_FRAMES; second++) {
            struct frame_walker walker = {.n_head = 0};
            struct seen seen = {.n_heads = 0};
            walk(&walker, THREE_FRAMES, first, &seen);
            walk(&walker, THREE_FRAMES + first, second - first, &seen);
            walk(&walker, THREE_FRAMES + second, sizeof THREE_FRAMES - second, &seen);
            cr_assert(seen.n_heads == 3 && seen.n_ends == 3, "cut at %zu and %zu", first, second);
            cr_assert(frame_is_boundary(&walker));
            cr_expect(seen.heads[0].type == FRAME_DATA && seen.heads[0].length == 3);
            cr_expect(seen.heads[1].type == FRAME_SETTINGS && seen.heads[1].flags == 1);
            cr_expect_eq(seen.heads[2].stream, 0x103);
        }
    }
}

Test(relay_frame, a_boundary_is_where_a_frame_may_be_put)
{
    struct frame_walker walker = {.n_head = 0};
    struct seen seen = {.n_heads = 0};
    cr_expect(frame_is_boundary(&walker));
    for (size_t i = 0; i < sizeof THREE_FRAMES; i++) {
        walk(&walker, THREE_FRAMES + i, 1, &seen);
        bool is_end = i == 11 || i == 20 || i == 33;
        cr_expect_eq(frame_is_boundary(&walker), is_end, "after byte %zu", i);
    }
}

Test(relay_frame, what_is_put_is_read_back)
{
    uint8_t reset[FRAME_RESET_BYTES], goaway[FRAME_GOAWAY_MAX];
    struct frame_walker walker = {.n_head = 0};
    struct seen seen = {.n_heads = 0};
    frame_put_reset(reset, 0x01020305, FRAME_CANCEL);
    walk(&walker, reset, sizeof reset, &seen);
    cr_expect_eq(seen.heads[0].stream, 0x01020305);
    cr_expect_eq(seen.heads[0].type, FRAME_RST_STREAM);
    cr_expect_eq(reset[12], FRAME_CANCEL);

    char text[200];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    size_t n = frame_put_goaway(goaway, 7, FRAME_ENHANCE_YOUR_CALM, text);
    cr_expect_eq(n, sizeof goaway, "cut at the longest");
    walk(&walker, goaway, n, &seen);
    cr_expect(seen.heads[1].type == FRAME_GOAWAY && seen.n_ends == 2);
    cr_expect(goaway[12] == 7 && goaway[16] == FRAME_ENHANCE_YOUR_CALM);
}
