/* relay/session_data: of padded DATA only what is between its length and its padding is a message's, wherever the bytes
 * are cut; padding alone is nothing heard, and is paid for as empty DATA is. */
#include "base/clock.h"
#include "tests/rpc/support/session_bed.h"

#include <criterion/criterion.h>
#include <string.h>

#define MESSAGE_BYTES (4u << 20)
#define MORE_BYTES    (1u << 20)

/* n_data bytes behind their length, before their padding. */
static uint8_t *put_padded(uint32_t n_data, uint8_t n_padding)
{
    uint8_t *payload = session_bed_put(1 + n_data + n_padding, FRAME_DATA, FRAME_FLAG_PADDED, 1);
    payload[0] = n_padding;
    return payload + 1;
}

static void set_up(void)
{
    session_bed_open();
    session_bed_put_preface();
    session_bed_from_client(SESSION_BED_BYTES);
    session_bed_put(0, FRAME_SETTINGS, 0, 0);
    session_bed_put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    session_bed_from_client(SESSION_BED_BYTES);
}

TestSuite(relay_data, .init = set_up, .fini = session_bed_close);

/* Of the core's. */
static void allow(uint32_t n_bytes)
{
    uint8_t update[FRAME_UPDATE_BYTES];
    struct session_event event;
    frame_put_update(update, 1, n_bytes);
    cr_assert_eq(session_core(&session_bed.session, update, sizeof update, false,
                              session_bed.now_ns, &event),
                 sizeof update);
}

static void check_place(size_t n_at_once)
{
    static const uint8_t prefix[] = {0, 0, 0x40, 0, 0}; /* MESSAGE_BYTES */
    memcpy(put_padded(2, 7), prefix, 2);
    put_padded(0, 255);
    put_padded(0, 0);
    memcpy(put_padded(50, 0), prefix + 2, 3);
    session_bed_from_client(n_at_once);
    cr_assert_eq(session_bed.event.kind, SESSION_NOTHING);
    cr_assert_eq(session_bed.session.streams.streams[0].window.received, 52);
    allow(MORE_BYTES);
    cr_expect_eq(session_bed.common.room.bytes, MESSAGE_BYTES + REQUEST_PREFIX_BYTES);
}

Test(relay_data, a_padded_message_has_the_place_that_it_says)
{
    check_place(SESSION_BED_BYTES);
}

Test(relay_data, wherever_its_bytes_are_cut)
{
    check_place(1);
}

Test(relay_data, more_padding_than_there_are_bytes_is_all_padding)
{
    put_padded(20, 0)[-1] = 200;
    session_bed_from_client(3);
    cr_expect_eq(session_bed.session.streams.streams[0].window.received, 0);
}

Test(relay_data, padding_alone_is_silence)
{
    session_bed.now_ns += session_bed.limits.half_open_ns - 1;
    put_padded(0, 10);
    session_bed_from_client(SESSION_BED_BYTES);
    session_bed.now_ns++;
    session_expire(&session_bed.session, session_bed.now_ns, &session_bed.event);
    cr_expect_eq(session_bed.event.kind, SESSION_RESET);
    cr_expect_eq(session_bed.event.limit, RELAY_LIMIT_HALF_OPEN_TIME);
}

Test(relay_data, padding_alone_is_paid_for_as_empty_data_is)
{
    uint32_t n_padded = 0;
    for (; session_bed.event.kind != SESSION_PAUSE && n_padded < 10000; n_padded++) {
        put_padded(0, (uint8_t)n_padded);
        session_bed_from_client(SESSION_BED_BYTES);
    }
    cr_expect_lt(n_padded, 10000);
    session_bed.now_ns = session_bed.event.until_ns + 60 * NS_PER_S;
    for (uint32_t i = 0; i < 10000; i++) {
        put_padded(1, (uint8_t)i);
        session_bed_from_client(SESSION_BED_BYTES);
        cr_assert_neq(session_bed.event.kind, SESSION_PAUSE);
    }
}
