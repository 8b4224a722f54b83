#include "rpc/relay/request_window.h"

#include <assert.h>

#define SHARE_OF_ALL 4 /* the last such part of the common room is for addresses that use none */

static void reserve(struct request_window *window, const struct request_rooms *rooms,
                    uint64_t n_bytes)
{
    window->reserved += n_bytes;
    rooms->own->bytes += n_bytes;
    rooms->address->bytes += n_bytes;
    rooms->all->bytes += n_bytes;
}

static void give_back(struct request_window *window, const struct request_rooms *rooms,
                      uint64_t n_bytes)
{
    assert(n_bytes <= window->reserved && n_bytes <= rooms->own->bytes);
    assert(n_bytes <= rooms->address->bytes && n_bytes <= rooms->all->bytes);
    window->reserved -= n_bytes;
    rooms->own->bytes -= n_bytes;
    rooms->address->bytes -= n_bytes;
    rooms->all->bytes -= n_bytes;
    rooms->all->has_freed = rooms->all->has_freed || n_bytes > 0;
}

static void count_waiting(const struct request_rooms *rooms, int change)
{
    assert(change > 0 || (rooms->own->n_waiting > 0 && rooms->address->n_waiting > 0 &&
                          rooms->all->n_waiting > 0));
    rooms->own->n_waiting += (uint32_t)change;
    rooms->address->n_waiting += (uint32_t)change;
    rooms->all->n_waiting += (uint32_t)change;
}

static void stop_waiting(struct request_window *window, const struct request_rooms *rooms)
{
    if (window->withheld > 0)
        count_waiting(rooms, -1);
    window->withheld = 0;
}

/* ---- how much ---- */

void request_window_hear(struct request_window *window, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n && window->n_prefix < REQUEST_PREFIX_BYTES; i++)
        window->prefix[window->n_prefix++] = bytes[i];
    window->received += n;
}

void request_window_hear_padding(struct request_window *window, size_t n)
{
    window->allowed = window->allowed > n ? window->allowed - n : 0;
}

bool request_window_is_broken(const struct request_window *window)
{
    return window->withheld > 0 && window->received > window->allowed;
}

/* The length in the message's prefix, plus the prefix. */
static uint64_t said_bytes(const struct request_window *window)
{
    const uint8_t *length = window->prefix + 1;
    return ((uint64_t)length[0] << 24 | (uint64_t)length[1] << 16 | (uint64_t)length[2] << 8 |
            length[3]) +
           REQUEST_PREFIX_BYTES;
}

/* The length of the message from its prefix; or the longest that the core accepts, if the prefix is not
 * complete or wrong. */
static uint64_t message_bytes(const struct request_window *window,
                              const struct request_rooms *rooms)
{
    uint64_t n_max = (uint64_t)rooms->limits->message_bytes_max + REQUEST_PREFIX_BYTES;
    uint64_t n = said_bytes(window);
    return window->n_prefix < REQUEST_PREFIX_BYTES || window->reserved > 0 || n > n_max ? n_max : n;
}

/* Room for the whole message is reserved, and no more bytes than the message have arrived. The core allows more than a
 * message needs, by the bytes that have arrived and that it has not read yet. */
static bool is_within_its_place(const struct request_window *window)
{
    return window->n_prefix == REQUEST_PREFIX_BYTES && said_bytes(window) <= window->reserved &&
           window->received <= said_bytes(window);
}

/* The room that must be reserved before the client may send so many more bytes; 0: none. Bytes that refill the
 * first window, as the core reads the message, need no room. */
static uint64_t missing(const struct request_window *window, const struct request_rooms *rooms,
                        uint32_t bytes)
{
    uint64_t allowed = window->allowed + bytes;
    if (allowed <= window->received + REQUEST_WINDOW_BYTES ||
        allowed <= window->reserved + REQUEST_WINDOW_BYTES || is_within_its_place(window))
        return 0;
    uint64_t beyond = allowed - window->reserved - REQUEST_WINDOW_BYTES;
    uint64_t whole = message_bytes(window, rooms);
    return whole > beyond ? whole : beyond;
}

static bool has_room(const struct request_room *room, uint64_t n_bytes, uint64_t bytes_max)
{
    return room->bytes == 0 || (room->bytes <= bytes_max && n_bytes <= bytes_max - room->bytes);
}

/* The limit that so many bytes exceed, or RELAY_N_LIMITS. */
static enum relay_limit find_limit(const struct request_rooms *rooms, uint64_t n_bytes)
{
    const struct relay_limits *limits = rooms->limits;
    uint64_t all_max = limits->request_bytes_max;
    if (!rooms->is_exempt && rooms->address->bytes > 0)
        all_max -= all_max / SHARE_OF_ALL;
    if (!has_room(rooms->own, n_bytes, limits->connection_request_bytes_max))
        return RELAY_LIMIT_CONNECTION_REQUEST_BYTES;
    if (!rooms->is_exempt && !has_room(rooms->address, n_bytes, limits->address_request_bytes_max))
        return RELAY_LIMIT_ADDRESS_REQUEST_BYTES;
    if (!has_room(rooms->all, n_bytes, all_max))
        return RELAY_LIMIT_REQUEST_BYTES;
    return RELAY_N_LIMITS;
}

/* ---- updates of the window ---- */

bool request_window_update(struct request_window *window, const struct request_rooms *rooms,
                           uint32_t bytes, uint64_t now_ns, enum relay_limit *limit_out)
{
    uint64_t n_missing = missing(window, rooms, bytes);
    enum relay_limit limit = RELAY_N_LIMITS;
    if (n_missing > 0 && window->since_ns == 0)
        window->since_ns = now_ns;
    if (n_missing > 0)
        limit = find_limit(rooms, n_missing);
    if (window->withheld == 0 && limit == RELAY_N_LIMITS) {
        reserve(window, rooms, n_missing);
        window->allowed += bytes;
        return true;
    }
    if (window->withheld == 0) {
        count_waiting(rooms, 1);
        window->withheld_ns = now_ns;
    }
    window->withheld += bytes; /* the core never allows as much as 2^31 */
    *limit_out = limit;
    return false;
}

bool request_window_may_grant(const struct request_window *window,
                              const struct request_rooms *rooms)
{
    uint64_t n_missing = missing(window, rooms, window->withheld);
    return window->withheld > 0 &&
           (n_missing == 0 || find_limit(rooms, n_missing) == RELAY_N_LIMITS);
}

uint32_t request_window_grant(struct request_window *window, const struct request_rooms *rooms)
{
    if (!request_window_may_grant(window, rooms))
        return 0;
    uint32_t bytes = window->withheld;
    reserve(window, rooms, missing(window, rooms, bytes));
    window->allowed += bytes;
    stop_waiting(window, rooms);
    return bytes;
}

/* ---- the end ---- */

bool request_window_is_large(const struct request_window *window)
{
    return window->ended_ns == 0 && (window->reserved > 0 || window->withheld > 0);
}

void request_window_end(struct request_window *window, const struct request_rooms *rooms,
                        uint64_t now_ns)
{
    stop_waiting(window, rooms);
    if (window->reserved > window->received)
        give_back(window, rooms, window->reserved - window->received);
    window->ended_ns = window->reserved > 0 ? now_ns : 0;
}

void request_window_release(struct request_window *window, const struct request_rooms *rooms)
{
    stop_waiting(window, rooms);
    give_back(window, rooms, window->reserved);
    window->allowed = window->allowed > window->received ? window->allowed - window->received : 0;
    window->received = 0;
    window->ended_ns = window->since_ns = 0;
}
