/* relay/request_window: small requests always pass; large ones while there is room for the whole message, of a
 * connection, an address and all; one that waits goes on when there is, and what was counted is given back. */
#include "rpc/relay/open_streams.h"
#include "rpc/relay/request_window.h"

#include <criterion/criterion.h>
#include <string.h>

#define MIB (1u << 20)

/* Two addresses, the first with two connections. */
struct bed {
    struct relay_limits limits;
    struct request_room all, addresses[2], own[3];
    uint64_t now_ns;
};

static struct bed bed;

static void set_up(void)
{
    bed = (struct bed){.now_ns = 1000 * NS_PER_S};
    relay_limits_init(&bed.limits);
    bed.limits.request_bytes_max = 32 * MIB;
    bed.limits.address_request_bytes_max = 24 * MIB;
    bed.limits.connection_request_bytes_max = 16 * MIB;
}

TestSuite(relay_window, .init = set_up);

static struct request_rooms rooms_of(uint32_t connection)
{
    return (struct request_rooms){.limits = &bed.limits,
                                  .all = &bed.all,
                                  .address = &bed.addresses[connection / 2],
                                  .own = &bed.own[connection]};
}

static void hear(struct request_window *window, const uint8_t *bytes, size_t n)
{
    request_window_hear(window, bytes, n);
    cr_assert(!request_window_is_broken(window));
}

/* A request that has said that its message is so long, and has sent its first window. */
static struct request_window begun(uint32_t message_bytes)
{
    static uint8_t zeros[REQUEST_WINDOW_BYTES - REQUEST_PREFIX_BYTES];
    const uint8_t prefix[] = {0, (uint8_t)(message_bytes >> 24), (uint8_t)(message_bytes >> 16),
                              (uint8_t)(message_bytes >> 8), (uint8_t)message_bytes};
    struct request_window window = {.allowed = REQUEST_WINDOW_BYTES};
    for (size_t i = 0; i < sizeof prefix; i++)
        hear(&window, prefix + i, 1);
    hear(&window, zeros, sizeof zeros);
    return window;
}

static bool asks(struct request_window *window, uint32_t connection, uint32_t bytes,
                 enum relay_limit *limit_out)
{
    struct request_rooms rooms = rooms_of(connection);
    *limit_out = RELAY_N_LIMITS;
    return request_window_update(window, &rooms, bytes, bed.now_ns, limit_out);
}

static void expect_passes(struct request_window *window, uint32_t connection, uint32_t bytes)
{
    enum relay_limit limit;
    cr_expect(asks(window, connection, bytes, &limit), "%s",
              limit < RELAY_N_LIMITS ? relay_limit_name(limit) : "?");
}

static void expect_waits(struct request_window *window, uint32_t connection, uint32_t bytes,
                         enum relay_limit expected)
{
    enum relay_limit limit;
    cr_expect(!asks(window, connection, bytes, &limit));
    cr_expect_eq(limit, expected);
}

static void end(struct request_window *window, uint32_t connection)
{
    struct request_rooms rooms = rooms_of(connection);
    request_window_release(window, &rooms);
}

static void expect_nothing_left(void)
{
    cr_expect_eq(bed.all.bytes, 0);
    cr_expect_eq(bed.all.n_waiting, 0);
    for (uint32_t i = 0; i < 3; i++) {
        cr_expect_eq(bed.own[i].bytes, 0);
        cr_expect_eq(bed.own[i].n_waiting, 0);
        cr_expect_eq(bed.addresses[i / 2].bytes, 0);
    }
}

Test(relay_window, what_fills_the_first_window_again_takes_no_room)
{
    struct request_window window = begun(8 * MIB);
    for (uint32_t i = 0; i < 100; i++) {
        uint8_t bytes[1000] = {0};
        expect_passes(&window, 0, sizeof bytes);
        hear(&window, bytes, sizeof bytes);
    }
    cr_expect_eq(bed.all.bytes, 0);
}

Test(relay_window, a_place_is_as_large_as_the_message_says)
{
    struct request_window window = begun(MIB);
    expect_passes(&window, 0, MIB / 2);
    cr_expect_eq(bed.all.bytes, MIB + REQUEST_PREFIX_BYTES);
    expect_passes(&window, 0, MIB / 2 - REQUEST_WINDOW_BYTES);
    cr_expect_eq(bed.all.bytes, MIB + REQUEST_PREFIX_BYTES);
    end(&window, 0);
    expect_nothing_left();
}

/* As gRPC's core does: what has come, and it has not looked at, it allows once more. */
Test(relay_window, a_message_that_has_its_place_is_allowed_more_than_it_has)
{
    struct request_window first = begun(8 * MIB - 8), second = begun(8 * MIB - 8);
    expect_passes(&first, 0, 7 * MIB);
    expect_passes(&second, 0, 7 * MIB);
    expect_passes(&first, 0, 2 * MIB);
    expect_passes(&second, 0, 2 * MIB);
    cr_expect_eq(bed.own[0].bytes, 2 * (8 * MIB - 8 + REQUEST_PREFIX_BYTES));
    end(&first, 0);
    end(&second, 0);
    expect_nothing_left();
}

Test(relay_window, who_says_less_than_he_sends_pays_for_the_longest)
{
    struct request_window window = begun(5);
    expect_passes(&window, 0, MIB);
    expect_passes(&window, 0, MIB);
    cr_expect_gt(bed.all.bytes, bed.limits.message_bytes_max);
    end(&window, 0);
    struct request_window liar = begun(UINT32_MAX);
    expect_passes(&liar, 0, MIB);
    cr_expect_eq(bed.all.bytes, bed.limits.message_bytes_max + REQUEST_PREFIX_BYTES);
    end(&liar, 0);
    expect_nothing_left();
}

Test(relay_window,
     a_connection_an_address_and_all_have_a_limit_and_the_last_quarter_is_for_newcomers)
{
    struct request_window windows[6];
    for (uint32_t i = 0; i < 6; i++)
        windows[i] = begun(7 * MIB);
    expect_passes(&windows[0], 0, MIB);
    expect_passes(&windows[1], 0, MIB);
    expect_waits(&windows[2], 0, MIB, RELAY_LIMIT_CONNECTION_REQUEST_BYTES);
    expect_passes(&windows[3], 1, MIB);
    expect_waits(&windows[4], 1, MIB, RELAY_LIMIT_ADDRESS_REQUEST_BYTES);
    expect_passes(&windows[5], 2, MIB);
    struct request_window more = begun(3 * MIB);
    expect_waits(&more, 2, MIB, RELAY_LIMIT_REQUEST_BYTES);
    end(&more, 2);
    for (uint32_t i = 0; i < 6; i++)
        end(&windows[i], i < 3 ? 0 : i < 5 ? 1 : 2);
    expect_nothing_left();
}

Test(relay_window, one_message_is_let_in_however_long)
{
    bed.limits.request_bytes_max = bed.limits.connection_request_bytes_max = MIB;
    struct request_window window = begun(8 * MIB), second = begun(8 * MIB);
    expect_passes(&window, 0, MIB);
    expect_waits(&second, 2, MIB, RELAY_LIMIT_REQUEST_BYTES);
    end(&window, 0);
    struct request_rooms rooms = rooms_of(2);
    cr_expect(bed.all.has_freed);
    cr_expect_eq(request_window_grant(&second, &rooms), MIB);
    end(&second, 2);
    expect_nothing_left();
}

Test(relay_window, who_waits_goes_on_with_all_that_was_withheld_and_may_send_no_more_before)
{
    bed.limits.connection_request_bytes_max = 8 * MIB;
    struct request_window first = begun(8 * MIB), second = begun(8 * MIB);
    struct request_rooms rooms = rooms_of(0);
    uint8_t byte = 0;
    expect_passes(&first, 0, MIB);
    expect_waits(&second, 0, MIB, RELAY_LIMIT_CONNECTION_REQUEST_BYTES);
    enum relay_limit limit;
    cr_expect(!asks(&second, 0, 1000, &limit));
    cr_expect_eq(request_window_grant(&second, &rooms), 0);
    struct request_window over = second;
    request_window_hear(&over, &byte, 1);
    cr_expect(request_window_is_broken(&over));
    end(&first, 0);
    cr_expect_eq(request_window_grant(&second, &rooms), MIB + 1000);
    hear(&second, &byte, 1);
    end(&second, 0);
    expect_nothing_left();
}

/* As long as the message, byte for byte: the core allows again what it has thrown away. */
Test(relay_window, padding_takes_no_room_and_leaves_the_message_its_place)
{
    static const uint8_t zeros[64];
    enum { PADDING = 200 };
    struct request_window window = begun(MIB);
    expect_passes(&window, 0, MIB - REQUEST_WINDOW_BYTES + REQUEST_PREFIX_BYTES);
    for (uint32_t n = 0; n < MIB; n += PADDING) {
        request_window_hear_padding(&window, PADDING);
        cr_assert(!request_window_is_broken(&window));
        expect_passes(&window, 0, PADDING);
    }
    cr_expect_eq(bed.all.bytes, MIB + REQUEST_PREFIX_BYTES);
    hear(&window, zeros, sizeof zeros);
    end(&window, 0);
    expect_nothing_left();
}

Test(relay_window, padding_takes_of_what_its_client_may_send)
{
    bed.limits.connection_request_bytes_max = 8 * MIB;
    struct request_window first = begun(8 * MIB), second = begun(8 * MIB);
    uint8_t byte = 0;
    expect_passes(&first, 0, MIB);
    expect_passes(&second, 0, 2);
    expect_waits(&second, 0, MIB, RELAY_LIMIT_CONNECTION_REQUEST_BYTES);
    request_window_hear_padding(&second, 1);
    hear(&second, &byte, 1);
    request_window_hear_padding(&second, 1);
    cr_expect(request_window_is_broken(&second));
    end(&first, 0);
    end(&second, 0);
    expect_nothing_left();
}

Test(relay_window, what_has_come_keeps_its_room_until_the_answer)
{
    struct request_window window = begun(8 * MIB);
    struct request_rooms rooms = rooms_of(0);
    expect_passes(&window, 0, MIB);
    request_window_end(&window, &rooms, bed.now_ns);
    cr_expect_eq(bed.all.bytes, REQUEST_WINDOW_BYTES);
    cr_expect_eq(window.ended_ns, bed.now_ns);
    end(&window, 0);
    expect_nothing_left();
}
