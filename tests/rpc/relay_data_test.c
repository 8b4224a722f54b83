/* relay/session_data: of padded DATA only what is between its length and its padding is a message's, wherever the bytes
 * are cut; padding alone is nothing heard, and is paid for as empty DATA is. */
#include "base/clock.h"
#include "rpc/relay/session.h"
#include "support/frame_head.h"

#include <criterion/criterion.h>
#include <string.h>

#define MESSAGE_BYTES (4u << 20)
#define MORE_BYTES    (1u << 20)

struct bed {
    struct relay_limits limits;
    struct session_common common;
    struct network_list exempt;
    struct address_book *book;
    struct address_entry *address;
    struct session session;
    uint64_t now_ns;
    struct session_event event; /* the last one that was not SESSION_NOTHING */
    uint8_t bytes[4096];
    size_t n;
};

static struct bed bed;

static void from_client(size_t n_at_once)
{
    bed.event = (struct session_event){.kind = SESSION_NOTHING};
    for (size_t at = 0; at < bed.n && bed.event.kind != SESSION_PAUSE;) {
        struct session_event event;
        size_t n = bed.n - at < n_at_once ? bed.n - at : n_at_once;
        at += session_client(&bed.session, bed.bytes + at, n, bed.now_ns, &event);
        if (event.kind != SESSION_NOTHING)
            bed.event = event;
    }
    bed.n = 0;
}

static uint8_t *put(uint32_t length, enum frame_type type, uint8_t flags, uint32_t stream)
{
    uint8_t *payload = bed.bytes + bed.n + FRAME_HEAD_BYTES;
    cr_assert_leq(bed.n + FRAME_HEAD_BYTES + length, sizeof bed.bytes);
    frame_head_put(bed.bytes + bed.n, length, type, flags, stream);
    memset(payload, 1, length);
    bed.n += FRAME_HEAD_BYTES + length;
    return payload;
}

/* n_data bytes behind their length, before their padding. */
static uint8_t *put_padded(uint32_t n_data, uint8_t n_padding)
{
    uint8_t *payload = put(1 + n_data + n_padding, FRAME_DATA, FRAME_FLAG_PADDED, 1);
    payload[0] = n_padding;
    return payload + 1;
}

static void set_up(void)
{
    const struct network_address address = {{1}};
    relay_limits_init(&bed.limits);
    bed.limits.unanswered_max = UINT32_MAX;
    bed.common.limits = &bed.limits;
    bed.now_ns = 1000 * NS_PER_S;
    cr_assert_eq(address_book_create(&bed.exempt, &bed.book), STATUS_OK);
    bed.address = address_book_enter(bed.book, &address);
    session_init(&bed.session, &bed.common, bed.address, bed.now_ns);
    memcpy(bed.bytes, FRAME_PREFACE, FRAME_PREFACE_BYTES);
    bed.n = FRAME_PREFACE_BYTES;
    from_client(sizeof bed.bytes);
    put(0, FRAME_SETTINGS, 0, 0);
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    from_client(sizeof bed.bytes);
}

static void tear_down(void)
{
    session_finish(&bed.session, bed.now_ns);
    cr_expect_eq(bed.common.room.bytes, 0);
    address_book_leave(bed.book, bed.address);
    address_book_destroy(bed.book);
}

TestSuite(relay_data, .init = set_up, .fini = tear_down);

/* Of the core's. */
static void allow(uint32_t n_bytes)
{
    uint8_t update[FRAME_UPDATE_BYTES];
    struct session_event event;
    frame_put_update(update, 1, n_bytes);
    cr_assert_eq(session_core(&bed.session, update, sizeof update, false, bed.now_ns, &event),
                 sizeof update);
}

static void check_place(size_t n_at_once)
{
    static const uint8_t prefix[] = {0, 0, 0x40, 0, 0}; /* MESSAGE_BYTES */
    memcpy(put_padded(2, 7), prefix, 2);
    put_padded(0, 255);
    put_padded(0, 0);
    memcpy(put_padded(50, 0), prefix + 2, 3);
    from_client(n_at_once);
    cr_assert_eq(bed.event.kind, SESSION_NOTHING);
    cr_assert_eq(bed.session.streams.streams[0].window.received, 52);
    allow(MORE_BYTES);
    cr_expect_eq(bed.common.room.bytes, MESSAGE_BYTES + REQUEST_PREFIX_BYTES);
}

Test(relay_data, a_padded_message_has_the_place_that_it_says)
{
    check_place(sizeof bed.bytes);
}

Test(relay_data, wherever_its_bytes_are_cut)
{
    check_place(1);
}

Test(relay_data, more_padding_than_there_are_bytes_is_all_padding)
{
    put_padded(20, 0)[-1] = 200;
    from_client(3);
    cr_expect_eq(bed.session.streams.streams[0].window.received, 0);
}

Test(relay_data, padding_alone_is_silence)
{
    bed.now_ns += bed.limits.half_open_ns - 1;
    put_padded(0, 10);
    from_client(sizeof bed.bytes);
    bed.now_ns++;
    session_expire(&bed.session, bed.now_ns, &bed.event);
    cr_expect_eq(bed.event.kind, SESSION_RESET);
    cr_expect_eq(bed.event.limit, RELAY_LIMIT_HALF_OPEN_TIME);
}

Test(relay_data, padding_alone_is_paid_for_as_empty_data_is)
{
    uint32_t n_padded = 0;
    for (; bed.event.kind != SESSION_PAUSE && n_padded < 10000; n_padded++) {
        put_padded(0, (uint8_t)n_padded);
        from_client(sizeof bed.bytes);
    }
    cr_expect_lt(n_padded, 10000);
    bed.now_ns = bed.event.until_ns + 60 * NS_PER_S;
    for (uint32_t i = 0; i < 10000; i++) {
        put_padded(1, (uint8_t)i);
        from_client(sizeof bed.bytes);
        cr_assert_neq(bed.event.kind, SESSION_PAUSE);
    }
}
