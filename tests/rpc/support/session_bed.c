#include "session_bed.h"

#include "base/clock.h"
#include "frame_head.h"

#include <criterion/criterion.h>
#include <string.h>

struct session_bed session_bed;

void session_bed_open(void)
{
    const struct network_address address = {{1}};
    relay_limits_init(&session_bed.limits);
    session_bed.limits.unanswered_max = UINT32_MAX; /* relay_turns_test.c has it */
    session_bed.common.limits = &session_bed.limits;
    session_bed.now_ns = 1000 * NS_PER_S;
    cr_assert_eq(address_book_create(&session_bed.exempt, &session_bed.book), STATUS_OK);
    session_bed.address = address_book_enter(session_bed.book, &address);
    session_init(&session_bed.session, &session_bed.common, session_bed.address,
                 session_bed.now_ns);
}

void session_bed_close(void)
{
    session_finish(&session_bed.session, session_bed.now_ns);
    cr_expect_eq(session_bed.address->n_streams, 0);
    cr_expect_eq(session_bed.address->n_half_open, 0);
    cr_expect_eq(session_bed.common.n_half_open, 0);
    cr_expect_eq(session_bed.common.room.bytes, 0);
    address_book_leave(session_bed.book, session_bed.address);
    address_book_destroy(session_bed.book);
}

void session_bed_put_preface(void)
{
    memcpy(session_bed.bytes, FRAME_PREFACE, FRAME_PREFACE_BYTES);
    session_bed.n = FRAME_PREFACE_BYTES;
}

uint8_t *session_bed_put(uint32_t length, enum frame_type type, uint8_t flags, uint32_t stream)
{
    uint8_t *payload = session_bed.bytes + session_bed.n + FRAME_HEAD_BYTES;
    cr_assert_leq(session_bed.n + FRAME_HEAD_BYTES + length, SESSION_BED_BYTES);
    frame_head_put(session_bed.bytes + session_bed.n, length, type, flags, stream);
    memset(payload, 1, length);
    session_bed.n += FRAME_HEAD_BYTES + length;
    return payload;
}

size_t session_bed_from_client(size_t n_at_once)
{
    size_t at = 0;
    session_bed.event = (struct session_event){.kind = SESSION_NOTHING};
    while (at < session_bed.n && session_bed.event.kind != SESSION_CLOSE &&
           session_bed.event.kind != SESSION_PAUSE) {
        struct session_event event;
        size_t n = session_bed.n - at < n_at_once ? session_bed.n - at : n_at_once;
        at += session_client(&session_bed.session, session_bed.bytes + at, n, session_bed.now_ns,
                             &event);
        if (event.kind != SESSION_NOTHING)
            session_bed.event = event;
        session_bed.n_events[event.kind]++;
    }
    size_t n_left = session_bed.n - at;
    session_bed.n = 0;
    return n_left;
}
