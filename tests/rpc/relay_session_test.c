/* relay/session: each limit strikes at its bound and not before it, honest traffic meets none, and what was
 * counted is given back. */
#include "base/clock.h"
#include "rpc/relay/session.h"
#include "support/frame_head.h"

#include <criterion/criterion.h>
#include <string.h>

#define BYTES_MAX (1u << 20)

struct bed {
    struct relay_limits limits;
    struct session_common common;
    struct network_list exempt;
    struct address_book *book;
    struct address_entry *address;
    struct session session;
    uint64_t now_ns;
    struct session_event event; /* the last one that was not SESSION_NOTHING */
    uint32_t n_events[SESSION_CLOSE + 1];
    uint8_t bytes[BYTES_MAX];
    size_t n;
};

static struct bed bed;

/* Before all else. */
static void put_preface(void)
{
    memcpy(bed.bytes, FRAME_PREFACE, FRAME_PREFACE_BYTES);
    bed.n = FRAME_PREFACE_BYTES;
}

static void put(uint32_t length, enum frame_type type, uint8_t flags, uint32_t stream)
{
    cr_assert_leq(bed.n + FRAME_HEAD_BYTES + length, BYTES_MAX);
    frame_head_put(bed.bytes + bed.n, length, type, flags, stream);
    memset(bed.bytes + bed.n + FRAME_HEAD_BYTES, 1, length);
    bed.n += FRAME_HEAD_BYTES + length;
}

/* What was put, from the client. Stops at SESSION_CLOSE and SESSION_PAUSE; returns what was not walked. */
static size_t from_client(void)
{
    size_t at = 0;
    bed.event = (struct session_event){.kind = SESSION_NOTHING};
    while (at < bed.n && bed.event.kind != SESSION_CLOSE && bed.event.kind != SESSION_PAUSE) {
        struct session_event event;
        at += session_client(&bed.session, bed.bytes + at, bed.n - at, bed.now_ns, &event);
        if (event.kind != SESSION_NOTHING)
            bed.event = event;
        bed.n_events[event.kind]++;
    }
    size_t n_left = bed.n - at;
    bed.n = 0;
    return n_left;
}

static void from_core(void)
{
    struct session_event event;
    cr_assert_eq(session_core(&bed.session, bed.bytes, bed.n, false, bed.now_ns, &event), bed.n);
    bed.n = 0;
    bed.n_events[event.kind]++;
}

static void expire(void)
{
    struct session_event event;
    do {
        session_expire(&bed.session, bed.now_ns, &event);
        if (event.kind != SESSION_NOTHING)
            bed.event = event;
        bed.n_events[event.kind]++;
    } while (event.kind == SESSION_RESET);
}

static void set_up(void)
{
    relay_limits_init(&bed.limits);
    bed.limits.unanswered_max = UINT32_MAX; /* relay_turns_test.c has it */
    bed.common.limits = &bed.limits;
    bed.now_ns = 1000 * NS_PER_S;
    cr_assert_eq(address_book_create(&bed.exempt, &bed.book), STATUS_OK);
    struct network_address address = {{1}};
    bed.address = address_book_enter(bed.book, &address);
    session_init(&bed.session, &bed.common, bed.address, bed.now_ns);
}

static void tear_down(void)
{
    session_finish(&bed.session, bed.now_ns);
    cr_expect_eq(bed.address->n_streams, 0);
    cr_expect_eq(bed.address->n_half_open, 0);
    cr_expect_eq(bed.common.n_half_open, 0);
    address_book_leave(bed.book, bed.address);
    address_book_destroy(bed.book);
}

TestSuite(relay_session, .init = set_up, .fini = tear_down);

/* Preface and SETTINGS of both sides, acknowledged. */
static void greet(void)
{
    uint32_t n_begun = bed.n_events[SESSION_BEGIN];
    put_preface();
    put(0, FRAME_SETTINGS, 0, 0);
    cr_assert_eq(from_client(), 0);
    cr_assert_eq(bed.n_events[SESSION_BEGIN], n_begun + 1);
    put(6, FRAME_SETTINGS, 0, 0);
    put(0, FRAME_SETTINGS, FRAME_FLAG_ACK, 0);
    from_core();
    put(0, FRAME_SETTINGS, FRAME_FLAG_ACK, 0);
    cr_assert_eq(from_client(), 0);
    cr_assert_eq(bed.event.kind, SESSION_NOTHING);
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
    cr_assert_eq(bed.event.kind, SESSION_CLOSE);
    cr_assert_eq(bed.event.limit, limit, "%s", relay_limit_name(bed.event.limit));
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
        cr_assert_eq(bed.event.kind, SESSION_NOTHING, "%s in call %u",
                     relay_limit_name(bed.event.limit), i);
        put_answer(2 * i + 1);
        from_core();
        cr_assert_eq(bed.session.streams.n, 0);
        bed.now_ns += NS_PER_US;
    }
    cr_expect(session_is_proven(&bed.session));
    bed.now_ns += 3600 * NS_PER_S;
    expire();
    cr_expect_eq(bed.session.due_ns, DEADLINE_NONE, "an idle connection waits for nothing");
}

Test(relay_session, every_cut_of_the_bytes_gives_the_same_end)
{
    for (uint32_t n_cut = 1; n_cut < 40; n_cut++) {
        struct session session;
        session_init(&session, &bed.common, bed.address, bed.now_ns);
        put_preface();
        put(0, FRAME_SETTINGS, 0, 0);
        put_request(1);
        put(60, FRAME_HEADERS, 0, 3);
        put(10, FRAME_CONTINUATION, FRAME_FLAG_END_HEADERS, 3);
        put(100, FRAME_DATA, 0, 3);
        for (size_t at = 0; at < bed.n;) {
            struct session_event event;
            size_t n = bed.n - at < n_cut ? bed.n - at : n_cut;
            at += session_client(&session, bed.bytes + at, n, bed.now_ns, &event);
            cr_assert(event.kind == SESSION_NOTHING || event.kind == SESSION_BEGIN);
        }
        cr_expect(session.streams.n == 2 && session.n_half_open == 1, "cut in %u", n_cut);
        cr_expect(session_may_reset(&session));
        session_finish(&session, bed.now_ns);
    }
    bed.n = 0;
}

Test(relay_session, what_is_no_preface_is_closed)
{
    memcpy(bed.bytes, "GET / HTTP/1.1\r\n", 16);
    bed.n = 16;
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_PROTOCOL);
}

Test(relay_session, the_first_frame_is_settings)
{
    put_preface();
    put_request(1);
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_PROTOCOL);
}

Test(relay_session, streams_are_counted_though_settings_are_not_acknowledged)
{
    put_preface();
    put(0, FRAME_SETTINGS, 0, 0);
    uint32_t n_max = bed.limits.streams_max + SESSION_STREAMS_SLACK;
    for (uint32_t i = 0; i < n_max; i++)
        put_request(2 * i + 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_neq(bed.event.kind, SESSION_CLOSE);
    put_request(2 * n_max + 1);
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_STREAMS);
}

Test(relay_session, settings_that_are_never_acknowledged_end_it)
{
    put_preface();
    put(0, FRAME_SETTINGS, 0, 0);
    (void)from_client();
    put(0, FRAME_SETTINGS, 0, 0);
    from_core();
    bed.now_ns += bed.limits.settings_ns - 1;
    expire();
    cr_expect_neq(bed.event.kind, SESSION_CLOSE);
    bed.now_ns += 1;
    expire();
    assert_closed_by(RELAY_LIMIT_SETTINGS_TIME);
}

Test(relay_session, who_says_nothing_is_closed_in_time)
{
    cr_expect_eq(bed.session.due_ns, bed.now_ns + bed.limits.handshake_ns);
    bed.now_ns = bed.session.due_ns;
    expire();
    assert_closed_by(RELAY_LIMIT_HANDSHAKE_TIME);
}

Test(relay_session, who_never_asks_is_closed_in_time)
{
    greet();
    uint64_t until_ns = bed.now_ns + bed.limits.unproven_ns;
    while (bed.event.kind == SESSION_NOTHING) {
        cr_assert_lt(bed.now_ns, bed.session.due_ns);
        bed.now_ns = bed.session.due_ns;
        expire();
    }
    assert_closed_by(RELAY_LIMIT_UNPROVEN_TIME);
    cr_expect_eq(bed.now_ns, until_ns);
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
    cr_expect_eq(bed.session.n_half_open, 1);
    bed.now_ns += bed.limits.half_open_ns;
    expire();
    cr_expect_eq(bed.n_events[SESSION_RESET], 1);
    cr_expect_eq(bed.event.stream, 1);
    cr_expect_eq(bed.event.limit, RELAY_LIMIT_HALF_OPEN_TIME);
    cr_expect_eq(bed.session.streams.n, 2);
}

Test(relay_session, a_trickled_request_has_a_whole_time)
{
    bed.limits.unproven_ns = 3600 * NS_PER_S;
    greet();
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    (void)from_client();
    uint64_t begin_ns = bed.now_ns;
    while (bed.n_events[SESSION_RESET] == 0) {
        cr_assert_leq(bed.now_ns, begin_ns + bed.limits.request_ns);
        bed.now_ns += bed.limits.half_open_ns / 2;
        put(1, FRAME_DATA, 0, 1);
        (void)from_client();
        expire();
    }
    cr_expect_eq(bed.event.limit, RELAY_LIMIT_REQUEST_TIME, "%s",
                 relay_limit_name(bed.event.limit));
}

Test(relay_session, a_reset_waits_for_a_place_between_frames)
{
    greet();
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    put(9, FRAME_DATA, 0, 1);
    bed.n -= 5; /* in the middle of a frame */
    (void)from_client();
    cr_expect_not(session_may_reset(&bed.session));
    bed.limits.frame_ns = 3600 * NS_PER_S;
    bed.now_ns += bed.limits.half_open_ns;
    expire();
    cr_expect_eq(bed.n_events[SESSION_RESET], 0);
    cr_expect_leq(bed.session.due_ns, bed.now_ns + NS_PER_S, "it is tried again");
}

Test(relay_session, an_unfinished_frame_ends_it)
{
    greet();
    put(20, FRAME_HEADERS, 0, 1); /* to be continued */
    (void)from_client();
    bed.now_ns += bed.limits.frame_ns;
    expire();
    assert_closed_by(RELAY_LIMIT_FRAME_TIME);
}

Test(relay_session, slow_data_is_no_unfinished_frame)
{
    greet();
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    put(1000, FRAME_DATA, FRAME_FLAG_END_STREAM, 1);
    static uint8_t all[2000];
    size_t n_all = bed.n;
    memcpy(all, bed.bytes, n_all);
    for (size_t i = 0; i < 10; i++) {
        size_t at = n_all - 1000 + i * 100;
        size_t n = i == 0 ? at + 100 : 100;
        memcpy(bed.bytes, all + (i == 0 ? 0 : at), n);
        bed.n = n;
        (void)from_client();
        bed.now_ns += bed.limits.frame_ns / 2;
        expire();
        cr_assert_neq(bed.event.kind, SESSION_CLOSE, "%s", relay_limit_name(bed.event.limit));
    }
    cr_expect(session_is_proven(&bed.session));
}

Test(relay_session, headers_are_summed_over_their_frames)
{
    greet();
    put(bed.limits.header_bytes_max - 100, FRAME_HEADERS, 0, 1);
    put(100, FRAME_CONTINUATION, FRAME_FLAG_END_HEADERS, 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(bed.event.kind, SESSION_NOTHING);
    put(bed.limits.header_bytes_max - 100, FRAME_HEADERS, 0, 3);
    put(101, FRAME_CONTINUATION, FRAME_FLAG_END_HEADERS, 3);
    (void)from_client();
    assert_closed_by(RELAY_LIMIT_HEADER_BYTES);
}

Test(relay_session, empty_continuations_are_counted)
{
    greet();
    put(10, FRAME_HEADERS, 0, 1);
    for (uint32_t i = 0; i < bed.limits.header_frames_max; i++)
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
    uint32_t n_free = bed.limits.address_resets_per_s * 2;
    for (uint32_t i = 0; i < n_free + 1; i++) {
        put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
        put(4, FRAME_RST_STREAM, 0, 2 * i + 1);
    }
    put_request(100001);
    size_t n_left = from_client();
    cr_assert_eq(bed.event.kind, SESSION_PAUSE);
    cr_expect_gt(n_left, 0, "the last request waits");
    cr_expect_leq(bed.event.until_ns, bed.now_ns + NS_PER_S / bed.limits.address_resets_per_s + 1);
    put_request(100001);
    cr_expect_eq(from_client(), bed.n + 88, "nothing is walked before");
    bed.now_ns = bed.event.until_ns;
    put_request(100001);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(bed.event.kind, SESSION_NOTHING);
}

Test(relay_session, resets_of_many_addresses_have_a_budget_together)
{
    greet();
    bed.limits.address_resets_per_s = UINT32_MAX;
    uint32_t n_free = bed.limits.resets_per_s * 2;
    for (uint32_t i = 0; i < n_free; i++)
        put(4, FRAME_RST_STREAM, 0, 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(bed.event.kind, SESSION_NOTHING);
    put(4, FRAME_RST_STREAM, 0, 1);
    (void)from_client();
    cr_expect_eq(bed.event.kind, SESSION_PAUSE);
}

Test(relay_session, resets_that_the_client_makes_the_core_send_count)
{
    greet();
    for (uint32_t i = 0; i <= bed.limits.address_resets_per_s * 2; i++) {
        put_request(2 * i + 1);
        cr_assert_eq(from_client(), 0);
        put(4, FRAME_RST_STREAM, 0, 2 * i + 1);
        from_core();
    }
    cr_expect_eq(bed.n_events[SESSION_PAUSE], 1);
}

Test(relay_session, who_is_unproven_waits_while_others_reset_too_much)
{
    greet();
    const struct budget_rate all = {bed.limits.resets_per_s, 2, 1};
    put_request(1);
    cr_expect_eq(from_client(), 0);
    (void)budget_take(&bed.common.resets, &all, 2 * bed.limits.resets_per_s + 10, bed.now_ns);
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 3);
    (void)from_client();
    cr_expect_eq(bed.event.kind, SESSION_NOTHING, "it is proven");
    put(10, FRAME_HEADERS, FRAME_FLAG_END_HEADERS | FRAME_FLAG_END_STREAM, 1);
    from_core(); /* a refusal */
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 5);
    (void)from_client();
    cr_expect_eq(bed.event.kind, SESSION_PAUSE);
}

Test(relay_session, the_cores_resets_of_half_requests_count)
{
    greet();
    for (uint32_t i = 0; i <= bed.limits.address_resets_per_s * 2; i++) {
        put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
        cr_assert_eq(from_client(), 0);
        put_answer(2 * i + 1);
        put(4, FRAME_RST_STREAM, 0, 2 * i + 1);
        from_core();
    }
    cr_expect_eq(bed.n_events[SESSION_PAUSE], 1);
}

Test(relay_session, the_cores_resets_of_what_is_over_do_not)
{
    greet();
    for (uint32_t i = 0; i <= bed.limits.address_resets_per_s * 2; i++) {
        put_request(2 * i + 1);
        cr_assert_eq(from_client(), 0);
        put_answer(2 * i + 1);
        put(4, FRAME_RST_STREAM, 0, 2 * i + 1);
        from_core();
    }
    cr_expect_eq(bed.n_events[SESSION_PAUSE], 0);
    cr_expect_eq(bed.session.streams.n, 0);
}

Test(relay_session, an_address_beyond_its_streams_has_them_reset_after_their_headers)
{
    greet();
    bed.limits.address_streams_max = 3;
    for (uint32_t i = 0; i < 3; i++)
        put_request(2 * i + 1);
    put(50, FRAME_HEADERS, 0, 7);
    put(50, FRAME_CONTINUATION, FRAME_FLAG_END_HEADERS, 7);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(bed.n_events[SESSION_RESET], 1);
    cr_expect(bed.event.stream == 7 && bed.event.error == FRAME_REFUSED_STREAM);
    cr_expect_eq(bed.event.limit, RELAY_LIMIT_ADDRESS_STREAMS);
    cr_expect(session_may_reset(&bed.session));
    put_answer(1);
    from_core();
    put_request(9);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(bed.n_events[SESSION_RESET], 1, "there is room again");
}

Test(relay_session, half_open_streams_of_an_address_and_of_all_are_bounded)
{
    greet();
    bed.limits.address_half_open_max = 2;
    for (uint32_t i = 0; i < 3; i++)
        put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
    (void)from_client();
    cr_expect_eq(bed.event.limit, RELAY_LIMIT_ADDRESS_HALF_OPEN);
    bed.limits.half_open_max = 2;
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 7);
    (void)from_client();
    cr_expect_eq(bed.event.limit, RELAY_LIMIT_HALF_OPEN);
    put_request(9);
    (void)from_client();
    cr_expect_eq(bed.n_events[SESSION_RESET], 3, "a request begins half open, too");
}

Test(relay_session, half_open_streams_of_one_address_leave_others_theirs)
{
    greet();
    bed.limits.half_open_max = 8;
    for (uint32_t i = 0; i < 9; i++)
        put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(bed.n_events[SESSION_RESET], 1);

    struct session first = bed.session;
    struct network_address other = {{2}};
    struct address_entry *address = address_book_enter(bed.book, &other);
    session_init(&bed.session, &bed.common, address, bed.now_ns);
    greet();
    for (uint32_t i = 0; i < 5; i++)
        put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 2 * i + 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(bed.n_events[SESSION_RESET], 2, "its even share is four");
    session_finish(&bed.session, bed.now_ns);
    address_book_leave(bed.book, address);
    bed.session = first;
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
        uint32_t n_free = FLOODS[i].limit == RELAY_LIMIT_PINGS ? bed.limits.pings_per_s * 10
                                                               : bed.limits.controls_per_s * 8;
        for (uint32_t j = 0; j < n_free; j++)
            put(FLOODS[i].length, FLOODS[i].type, FLOODS[i].flags, 0);
        cr_assert_eq(from_client(), 0, "flood %zu", i);
        cr_assert_eq(bed.event.kind, SESSION_NOTHING, "flood %zu", i);
        put(FLOODS[i].length, FLOODS[i].type, FLOODS[i].flags, 0);
        put_request(2 * (uint32_t)i + 1);
        cr_assert_gt(from_client(), 0, "flood %zu", i);
        cr_assert_eq(bed.event.kind, SESSION_PAUSE, "flood %zu", i);
        bed.now_ns += 100 * NS_PER_S;
    }
}

Test(relay_session, data_has_no_longest_length_and_other_frames_have)
{
    greet();
    put(50, FRAME_HEADERS, FRAME_FLAG_END_HEADERS, 1);
    put(500000, FRAME_DATA, FRAME_FLAG_END_STREAM, 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(bed.event.kind, SESSION_NOTHING);
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
    session_finish(&bed.session, bed.now_ns);
    const struct budget_rate rate = {bed.limits.address_resets_per_s, 2, 8};
    cr_expect_leq(budget_level(&bed.address->resets, &rate, bed.now_ns), 0);
}

Test(relay_session, an_exempt_address_has_no_limits_of_its_own)
{
    greet();
    bed.address->is_exempt = true;
    bed.limits.address_streams_max = 1;
    for (uint32_t i = 0; i < 100; i++)
        put_request(2 * i + 1);
    for (uint32_t i = 0; i < 5000; i++)
        put(4, FRAME_RST_STREAM, 0, 1);
    cr_expect_eq(from_client(), 0);
    cr_expect_eq(bed.event.kind, SESSION_NOTHING);
}
