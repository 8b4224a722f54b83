/* relay/session: each limit strikes at its bound and not before it, honest traffic meets none, and what was
 * counted is given back. */
#include "base/clock.h"
#include "tests/rpc/support/frame_head.h"
#include "tests/rpc/support/session_bed.h"

#include <criterion/criterion.h>
#include <string.h>

static void put(uint32_t length, enum frame_type type, uint8_t flags, uint32_t stream)
{
    (void)session_bed_put(length, type, flags, stream);
}

static size_t from_client(void)
{
    return session_bed_from_client(SESSION_BED_BYTES);
}

static void from_core(void)
{
    struct session_event event;
    cr_assert_eq(session_core(&session_bed.session, session_bed.bytes, session_bed.n, false,
                              session_bed.now_ns, &event),
                 session_bed.n);
    session_bed.n = 0;
    session_bed.n_events[event.kind]++;
}

static void expire(void)
{
    struct session_event event;
    do {
        session_expire(&session_bed.session, session_bed.now_ns, &event);
        if (event.kind != SESSION_NOTHING)
            session_bed.event = event;
        session_bed.n_events[event.kind]++;
    } while (event.kind == SESSION_RESET);
}

TestSuite(relay_session, .init = session_bed_open, .fini = session_bed_close);

/* Preface and SETTINGS of both sides, acknowledged. */
static void greet(void)
{
    uint32_t n_begun = session_bed.n_events[SESSION_BEGIN];
    session_bed_put_preface();
    put(0, FRAME_SETTINGS, 0, 0);
    cr_assert_eq(from_client(), 0);
    cr_assert_eq(session_bed.n_events[SESSION_BEGIN], n_begun + 1);
    put(6, FRAME_SETTINGS, 0, 0);
    put(0, FRAME_SETTINGS, FRAME_FLAG_ACK, 0);
    from_core();
    put(0, FRAME_SETTINGS, FRAME_FLAG_ACK, 0);
    cr_assert_eq(from_client(), 0);
    cr_assert_eq(session_bed.event.kind, SESSION_NOTHING);
}

static void put_request(uint32_t stream)
{
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, stream);
    put(20, FRAME_DATA, FRAME_FLAG_END_STREAM, stream);
}

static void put_answer(uint32_t stream)
{
    put(10, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, stream);
    put(20, FRAME_DATA, 0, stream);
    put(10, FRAME_HEADERS, FRAME_FLAG_END_HEADERS | FRAME_FLAG_END_STREAM, stream);
}

static void assert_closed_by(enum relay_limit limit)
{
    cr_assert_eq(session_bed.event.kind, SESSION_CLOSE);
    cr_assert_eq(session_bed.event.limit, limit, "%s", relay_limit_name(session_bed.event.limit));
}

Test(relay_session, honest_calls_leave_nothing_and_meet_no_limit)
{
    greet();
    for (uint32_t i = 0; i < 5000; i++) {
        put_request(2 * i + 1);
        put(8, FRAME_PING, 0, 0);          /* one for each message that came, as Go's client does */
        put(4, FRAME_WINDOW_UPDATE, 0, 0); /* and two of these */
        put(4, FRAME_WINDOW_UPDATE, 0, 2 * i + 1);
        cr_assert_eq(from_client(), 0, "call %u", i);
        cr_assert_eq(session_bed.event.kind, SESSION_NOTHING, "%s in call %u",
                     relay_limit_name(session_bed.event.limit), i);
        put_answer(2 * i + 1);
        from_core();
        cr_assert_eq(session_bed.session.streams.n, 0);
        session_bed.now_ns += NS_PER_US;
    }
    cr_expect(session_is_proven(&session_bed.session));
    session_bed.now_ns += 3600 * NS_PER_S;
    expire();
    cr_expect_eq(session_bed.session.due_ns, DEADLINE_NONE, "an idle connection waits for nothing");
}

Test(relay_session, every_cut_of_the_bytes_gives_the_same_end)
{
    for (uint32_t n_cut = 1; n_cut < 40; n_cut++) {
        struct session session;
        session_init(&session, &session_bed.common, session_bed.address, session_bed.now_ns);
        session_bed_put_preface();
        put(0, FRAME_SETTINGS, 0, 0);
        put_request(1);
        put(60, FRAME_HEADERS, 0, 3);
        put(10, FRAME_CONTINUATION, FRAME_FLAG_END_HEADERS, 3);
        put(100, FRAME_DATA, 0, 3);
        for (size_t at = 0; at < session_bed.n;) {
            struct session_event event;
            size_t n = session_bed.n - at < n_cut ? session_bed.n - at : n_cut;
            at += session_client(&session, session_bed.bytes + at, n, session_bed.now_ns, &event);
            cr_assert(event.kind == SESSION_NOTHING || event.kind == SESSION_BEGIN);
        }
        cr_expect(session.streams.n == 2 && session.n_half_open == 1, "cut in %u", n_cut);
        cr_expect(session_may_reset(&session));
        session_finish(&session, session_bed.now_ns);
    }
    session_bed.n = 0;
}

Test(relay_session, what_is_no_preface_is_closed)
{
    memcpy(session_bed.bytes, "GET / HTTP/1.1\r\n", 16);
    session_bed.n = 16;
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_PROTOCOL);
}

Test(relay_session, the_first_frame_is_settings)
{
    session_bed_put_preface();
    put_request(1);
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_PROTOCOL);
}

Test(relay_session, streams_are_counted_though_settings_are_not_acknowledged)
{
    session_bed_put_preface();
    put(0, FRAME_SETTINGS, 0, 0);
    uint32_t n_max = session_bed.limits.streams_max + SESSION_STREAMS_SLACK;
    for (uint32_t i = 0; i < n_max; i++)
        put_request(2 * i + 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_neq(session_bed.event.kind, SESSION_CLOSE);
    put_request(2 * n_max + 1);
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_STREAMS);
}

Test(relay_session, settings_that_are_never_acknowledged_end_it)
{
    session_bed_put_preface();
    put(0, FRAME_SETTINGS, 0, 0);
    (void)from_client();
    put(0, FRAME_SETTINGS, 0, 0);
    from_core();
    session_bed.now_ns += session_bed.limits.settings_ns - 1;
    expire();
    cr_expect_neq(session_bed.event.kind, SESSION_CLOSE);
    session_bed.now_ns += 1;
    expire();
    assert_closed_by(RELAY_LIMIT_SETTINGS_TIME);
}

Test(relay_session, who_says_nothing_is_closed_in_time)
{
    cr_expect_eq(session_bed.session.due_ns, session_bed.now_ns + session_bed.limits.handshake_ns);
    session_bed.now_ns = session_bed.session.due_ns;
    expire();
    assert_closed_by(RELAY_LIMIT_HANDSHAKE_TIME);
}

Test(relay_session, who_never_asks_is_closed_in_time)
{
    greet();
    uint64_t until_ns = session_bed.now_ns + session_bed.limits.unproven_ns;
    while (session_bed.event.kind == SESSION_NOTHING) {
        cr_assert_lt(session_bed.now_ns, session_bed.session.due_ns);
        session_bed.now_ns = session_bed.session.due_ns;
        expire();
    }
    assert_closed_by(RELAY_LIMIT_UNPROVEN_TIME);
    cr_expect_eq(session_bed.now_ns, until_ns);
}

Test(relay_session, half_open_streams_are_reset_in_time_and_others_are_not)
{
    greet();
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    put_request(3);
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 5); /* half a conversation */
    (void)from_client();
    put(10, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 5);
    from_core();
    cr_expect_eq(session_bed.session.n_half_open, 1);
    session_bed.now_ns += session_bed.limits.half_open_ns;
    expire();
    cr_expect_eq(session_bed.n_events[SESSION_RESET], 1);
    cr_expect_eq(session_bed.event.stream, 1);
    cr_expect_eq(session_bed.event.limit, RELAY_LIMIT_HALF_OPEN_TIME);
    cr_expect_eq(session_bed.session.streams.n, 2);
}

Test(relay_session, a_trickled_request_has_a_whole_time)
{
    session_bed.limits.unproven_ns = 3600 * NS_PER_S;
    greet();
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    (void)from_client();
    uint64_t begin_ns = session_bed.now_ns;
    while (session_bed.n_events[SESSION_RESET] == 0) {
        cr_assert_leq(session_bed.now_ns, begin_ns + session_bed.limits.request_ns);
        session_bed.now_ns += session_bed.limits.half_open_ns / 2;
        put(1, FRAME_DATA, 0, 1);
        (void)from_client();
        expire();
    }
    cr_expect_eq(session_bed.event.limit, RELAY_LIMIT_REQUEST_TIME, "%s",
                 relay_limit_name(session_bed.event.limit));
}

Test(relay_session, a_reset_waits_for_a_place_between_frames)
{
    greet();
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    put(9, FRAME_DATA, 0, 1);
    session_bed.n -= 5; /* in the middle of a frame */
    (void)from_client();
    cr_expect_not(session_may_reset(&session_bed.session));
    session_bed.limits.frame_ns = 3600 * NS_PER_S;
    session_bed.now_ns += session_bed.limits.half_open_ns;
    expire();
    cr_expect_eq(session_bed.n_events[SESSION_RESET], 0);
    cr_expect_leq(session_bed.session.due_ns, session_bed.now_ns + NS_PER_S, "it is tried again");
}

Test(relay_session, an_unfinished_frame_ends_it)
{
    greet();
    put(20, FRAME_HEADERS, 0, 1); /* to be continued */
    (void)from_client();
    session_bed.now_ns += session_bed.limits.frame_ns;
    expire();
    assert_closed_by(RELAY_LIMIT_FRAME_TIME);
}

Test(relay_session, slow_data_is_no_unfinished_frame)
{
    greet();
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    put(1000, FRAME_DATA, FRAME_FLAG_END_STREAM, 1);
    static uint8_t all[2000];
    size_t n_all = session_bed.n;
    memcpy(all, session_bed.bytes, n_all);
    for (size_t i = 0; i < 10; i++) {
        size_t at = n_all - 1000 + i * 100;
        size_t n = i == 0 ? at + 100 : 100;
        memcpy(session_bed.bytes, all + (i == 0 ? 0 : at), n);
        session_bed.n = n;
        (void)from_client();
        session_bed.now_ns += session_bed.limits.frame_ns / 2;
        expire();
        cr_assert_neq(session_bed.event.kind, SESSION_CLOSE, "%s",
                      relay_limit_name(session_bed.event.limit));
    }
    cr_expect(session_is_proven(&session_bed.session));
}

Test(relay_session, headers_are_summed_over_their_frames)
{
    greet();
    put(session_bed.limits.header_bytes_max - 100, FRAME_HEADERS, 0, 1);
    put(100, FRAME_CONTINUATION, FRAME_FLAG_END_HEADERS, 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(session_bed.event.kind, SESSION_NOTHING);
    put(session_bed.limits.header_bytes_max - 100, FRAME_HEADERS, 0, 3);
    put(101, FRAME_CONTINUATION, FRAME_FLAG_END_HEADERS, 3);
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_HEADER_BYTES);
}

Test(relay_session, empty_continuations_are_counted)
{
    greet();
    put(10, FRAME_HEADERS, 0, 1);
    for (uint32_t i = 0; i < session_bed.limits.header_frames_max; i++)
        put(0, FRAME_CONTINUATION, 0, 1);
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_HEADER_FRAMES);
}

Test(relay_session, nothing_comes_between_headers)
{
    greet();
    put(10, FRAME_HEADERS, 0, 1);
    put(8, FRAME_PING, 0, 0);
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_PROTOCOL);
}

Test(relay_session, a_continuation_belongs_to_its_headers)
{
    greet();
    put(10, FRAME_HEADERS, 0, 1);
    put(10, FRAME_CONTINUATION, FRAME_FLAG_END_HEADERS, 3);
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_PROTOCOL);
}

Test(relay_session, an_empty_reset_budget_stops_the_reading_and_closes_nothing)
{
    greet();
    uint32_t n_free = session_bed.limits.address_resets_per_s * 2;
    for (uint32_t i = 0; i < n_free + 1; i++) {
        put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
        put(4, FRAME_RST_STREAM, 0, 2 * i + 1);
    }
    put_request(100001);
    size_t n_left = from_client();
    cr_assert_eq(session_bed.event.kind, SESSION_PAUSE);
    cr_expect_gt(n_left, 0, "the last request waits");
    cr_expect_leq(session_bed.event.until_ns,
                  session_bed.now_ns + NS_PER_S / session_bed.limits.address_resets_per_s + 1);
    put_request(100001);
    cr_expect_eq(from_client(), session_bed.n + 88, "nothing is walked before");
    session_bed.now_ns = session_bed.event.until_ns;
    put_request(100001);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(session_bed.event.kind, SESSION_NOTHING);
}

Test(relay_session, resets_of_many_addresses_have_a_budget_together)
{
    greet();
    session_bed.limits.address_resets_per_s = UINT32_MAX;
    uint32_t n_free = session_bed.limits.resets_per_s * 2;
    for (uint32_t i = 0; i < n_free; i++)
        put(4, FRAME_RST_STREAM, 0, 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(session_bed.event.kind, SESSION_NOTHING);
    put(4, FRAME_RST_STREAM, 0, 1);
    (void)from_client();
    cr_expect_eq(session_bed.event.kind, SESSION_PAUSE);
}

Test(relay_session, resets_that_the_client_makes_the_core_send_count)
{
    greet();
    for (uint32_t i = 0; i <= session_bed.limits.address_resets_per_s * 2; i++) {
        put_request(2 * i + 1);
        cr_assert_eq(from_client(), 0);
        put(4, FRAME_RST_STREAM, 0, 2 * i + 1);
        from_core();
    }
    cr_expect_eq(session_bed.n_events[SESSION_PAUSE], 1);
}

Test(relay_session, who_is_unproven_waits_while_others_reset_too_much)
{
    greet();
    const struct budget_rate all = {session_bed.limits.resets_per_s, 2, 1};
    put_request(1);
    cr_expect_eq(from_client(), 0);
    (void)budget_take(&session_bed.common.resets, &all, 2 * session_bed.limits.resets_per_s + 10,
                      session_bed.now_ns);
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 3);
    (void)from_client();
    cr_expect_eq(session_bed.event.kind, SESSION_NOTHING, "it is proven");
    put(10, FRAME_HEADERS, FRAME_FLAG_END_HEADERS | FRAME_FLAG_END_STREAM, 1);
    from_core(); /* a refusal */
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 5);
    (void)from_client();
    cr_expect_eq(session_bed.event.kind, SESSION_PAUSE);
}

Test(relay_session, the_cores_resets_of_half_requests_count)
{
    greet();
    for (uint32_t i = 0; i <= session_bed.limits.address_resets_per_s * 2; i++) {
        put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
        cr_assert_eq(from_client(), 0);
        put_answer(2 * i + 1);
        put(4, FRAME_RST_STREAM, 0, 2 * i + 1);
        from_core();
    }
    cr_expect_eq(session_bed.n_events[SESSION_PAUSE], 1);
}

Test(relay_session, the_cores_resets_of_what_is_over_do_not)
{
    greet();
    for (uint32_t i = 0; i <= session_bed.limits.address_resets_per_s * 2; i++) {
        put_request(2 * i + 1);
        cr_assert_eq(from_client(), 0);
        put_answer(2 * i + 1);
        put(4, FRAME_RST_STREAM, 0, 2 * i + 1);
        from_core();
    }
    cr_expect_eq(session_bed.n_events[SESSION_PAUSE], 0);
    cr_expect_eq(session_bed.session.streams.n, 0);
}

Test(relay_session, an_address_beyond_its_streams_has_them_reset_after_their_headers)
{
    greet();
    session_bed.limits.address_streams_max = 3;
    for (uint32_t i = 0; i < 3; i++)
        put_request(2 * i + 1);
    put(50, FRAME_HEADERS, 0, 7);
    put(50, FRAME_CONTINUATION, FRAME_FLAG_END_HEADERS, 7);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(session_bed.n_events[SESSION_RESET], 1);
    cr_expect(session_bed.event.stream == 7 && session_bed.event.error == FRAME_REFUSED_STREAM);
    cr_expect_eq(session_bed.event.limit, RELAY_LIMIT_ADDRESS_STREAMS);
    cr_expect(session_may_reset(&session_bed.session));
    put_answer(1);
    from_core();
    put_request(9);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(session_bed.n_events[SESSION_RESET], 1, "there is room again");
}

Test(relay_session, half_open_streams_of_an_address_and_of_all_are_bounded)
{
    greet();
    session_bed.limits.address_half_open_max = 2;
    for (uint32_t i = 0; i < 3; i++)
        put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
    (void)from_client();
    cr_expect_eq(session_bed.event.limit, RELAY_LIMIT_ADDRESS_HALF_OPEN);
    session_bed.limits.half_open_max = 2;
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 7);
    (void)from_client();
    cr_expect_eq(session_bed.event.limit, RELAY_LIMIT_HALF_OPEN);
    put_request(9);
    (void)from_client();
    cr_expect_eq(session_bed.n_events[SESSION_RESET], 3, "a request begins half open, too");
}

Test(relay_session, half_open_streams_of_one_address_leave_others_theirs)
{
    greet();
    session_bed.limits.half_open_max = 8;
    for (uint32_t i = 0; i < 9; i++)
        put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(session_bed.n_events[SESSION_RESET], 1);

    struct session first = session_bed.session;
    struct network_address other = {{2}};
    struct address_entry *address = address_book_enter(session_bed.book, &other);
    session_init(&session_bed.session, &session_bed.common, address, session_bed.now_ns);
    greet();
    for (uint32_t i = 0; i < 5; i++)
        put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(session_bed.n_events[SESSION_RESET], 2, "its even share is four");
    session_finish(&session_bed.session, session_bed.now_ns);
    address_book_leave(session_bed.book, address);
    session_bed.session = first;
}

Test(relay_session, pings_settings_and_their_like_are_paid_for_or_wait)
{
    static const struct {
        enum frame_type type;
        uint8_t flags;
        uint32_t length;
        enum relay_limit limit;
    } FLOODS[] = {
        {FRAME_PING, 0, 8, RELAY_LIMIT_PINGS},
        {FRAME_PING, FRAME_FLAG_ACK, 8, RELAY_LIMIT_PINGS},
        {FRAME_SETTINGS, 0, 6, RELAY_LIMIT_CONTROLS},
        {FRAME_SETTINGS, FRAME_FLAG_ACK, 0, RELAY_LIMIT_CONTROLS},
        {FRAME_PRIORITY, 0, 5, RELAY_LIMIT_CONTROLS},
        {FRAME_WINDOW_UPDATE, 0, 4, RELAY_LIMIT_CONTROLS},
        {FRAME_DATA, 0, 0, RELAY_LIMIT_CONTROLS},
        {42, 0, 10, RELAY_LIMIT_CONTROLS},
    };
    greet();
    for (size_t i = 0; i < sizeof FLOODS / sizeof *FLOODS; i++) {
        uint32_t n_free = FLOODS[i].limit == RELAY_LIMIT_PINGS
                              ? session_bed.limits.pings_per_s * 10
                              : session_bed.limits.controls_per_s * 8;
        for (uint32_t j = 0; j < n_free; j++)
            put(FLOODS[i].length, FLOODS[i].type, FLOODS[i].flags, 0);
        cr_assert_eq(from_client(), 0, "flood %zu", i);
        cr_assert_eq(session_bed.event.kind, SESSION_NOTHING, "flood %zu", i);
        put(FLOODS[i].length, FLOODS[i].type, FLOODS[i].flags, 0);
        put_request(2 * (uint32_t)i + 1);
        cr_assert_gt(from_client(), 0, "flood %zu", i);
        cr_assert_eq(session_bed.event.kind, SESSION_PAUSE, "flood %zu", i);
        session_bed.now_ns += 100 * NS_PER_S;
    }
}

Test(relay_session, data_has_no_longest_length_and_other_frames_have)
{
    greet();
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    put(500000, FRAME_DATA, FRAME_FLAG_END_STREAM, 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(session_bed.event.kind, SESSION_NOTHING);
    put(20000, FRAME_SETTINGS, 0, 0);
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_PROTOCOL);
}

Test(relay_session, streams_that_end_with_their_connection_are_resets)
{
    greet();
    for (uint32_t i = 0; i < 200; i++)
        put_request(2 * i + 1);
    (void)from_client();
    session_finish(&session_bed.session, session_bed.now_ns);
    const struct budget_rate rate = {session_bed.limits.address_resets_per_s, 2, 8};
    cr_expect_leq(budget_level(&session_bed.address->resets, &rate, session_bed.now_ns), 0);
}

Test(relay_session, an_exempt_address_has_no_limits_of_its_own)
{
    greet();
    session_bed.address->is_exempt = true;
    session_bed.limits.address_streams_max = 1;
    for (uint32_t i = 0; i < 100; i++)
        put_request(2 * i + 1);
    for (uint32_t i = 0; i < 5000; i++)
        put(4, FRAME_RST_STREAM, 0, 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(session_bed.event.kind, SESSION_NOTHING);
}
