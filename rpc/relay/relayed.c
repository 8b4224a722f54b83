#include "rpc/relay/relayed.h"

#include "base/clock.h"
#include "rpc/relay/relayed_parts.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_NS      (500 * NS_PER_MS)
#define FAREWELL_NS    (2 * NS_PER_S) /* for a client that was served to the end: it may read slowly */
#define FAREWELL_BYTES (64u << 10)    /* that are still read from it meanwhile */

/* The answer to a browser, curl or a probe with HTTP/1. */
static const char NO_HTTP1[] =
    "HTTP/1.1 426 Upgrade Required\r\nConnection: close\r\nUpgrade: h2c\r\n"
    "Content-Type: text/plain\r\n\r\n"
    "kvferry: gRPC (HTTP/2) listens here; /healthz, /readyz and /metrics are on the metrics port\n";

/* ---- sockets ---- */

static void close_side(struct relayed *relayed, enum relayed_side side)
{
    if (relayed->fds[side] >= 0)
        close(relayed->fds[side]); /* this also removes it from the epoll set */
    relayed->fds[side] = -1;
    relayed->events[side] = 0;
}

/* A side without wanted events is not in the epoll set, because epoll would report its end again
 * and again. */
static void ask_events(struct relayed_common *common, struct relayed *relayed,
                       enum relayed_side side, uint32_t events)
{
    assert(((uintptr_t)relayed & 1) == 0); /* the lowest bit of the tag is the side */
    if (relayed->fds[side] < 0 || relayed->events[side] == events)
        return;
    struct epoll_event asked = {.events = events};
    asked.data.u64 = (uint64_t)(uintptr_t)relayed | (uint64_t)side;
    int operation = EPOLL_CTL_MOD;
    if (relayed->events[side] == 0)
        operation = EPOLL_CTL_ADD;
    else if (events == 0)
        operation = EPOLL_CTL_DEL;
    if (epoll_ctl(common->epoll, operation, relayed->fds[side], &asked) == 0)
        relayed->events[side] = events;
}

bool relayed_is_heard(const struct relayed *relayed)
{
    return relayed->state == RELAYED_NEW || relayed->state == RELAYED_OPEN;
}

/* True: the client is not read now. */
bool relayed_is_held(const struct relayed *relayed)
{
    return relayed->paused_until_ns > 0 || relayed->is_waiting;
}

static bool reads_client_of(const struct relayed *relayed)
{
    switch (relayed->state) {
    case RELAYED_HANDSHAKE:
        return !relayed->is_computing;
    case RELAYED_NEW:
        return true;
    case RELAYED_LINGER: /* closing with unread input would make the client's kernel drop the last answers */
        return relayed->farewell_bytes > 0;
    case RELAYED_OPEN: /* a client that takes no answers is not read */
        return !relayed->is_parted && !relayed_is_held(relayed) &&
               !relayed->unsent[RELAYED_CORE].bytes && !relayed->unsent[RELAYED_CLIENT].bytes;
    default:
        return false;
    }
}

static void settle_events(struct relayed_common *common, struct relayed *relayed)
{
    bool reads_client = reads_client_of(relayed);
    bool reads_core = relayed->state == RELAYED_OPEN && !relayed->unsent[RELAYED_CLIENT].bytes;
    bool waits_for_client = !reads_client &&
                            (relayed->state == RELAYED_OPEN || relayed->state == RELAYED_LINGER);
    uint32_t client = (reads_client ? EPOLLIN : 0u) | (waits_for_client ? EPOLLRDHUP : 0u) |
                      (relayed->unsent[RELAYED_CLIENT].bytes ? EPOLLOUT : 0u);
    uint32_t core = (reads_core ? EPOLLIN : 0u) |
                    (relayed->unsent[RELAYED_CORE].bytes ? EPOLLOUT : 0u);
    ask_events(common, relayed, RELAYED_CLIENT, client);
    ask_events(common, relayed, RELAYED_CORE, core);
}

static void settle_timer(struct relayed_common *common, struct relayed *relayed)
{
    uint64_t due_ns = DEADLINE_NONE;
    if (relayed->state == RELAYED_LINGER)
        due_ns = relayed->linger_until_ns;
    if (relayed_is_heard(relayed) || relayed->state == RELAYED_HANDSHAKE)
        due_ns = relayed->session.due_ns;
    if (relayed->paused_until_ns > 0)
        due_ns = clock_earlier(due_ns, relayed->paused_until_ns);
    if (relayed->behind_since_ns > 0 && relayed->state == RELAYED_OPEN)
        due_ns = clock_earlier(due_ns,
                               relayed->behind_since_ns + common->session.limits->behind_ns);
    if (relayed->unsent[RELAYED_CLIENT].bytes)
        due_ns = clock_earlier(due_ns, relayed->moved_ns + common->session.limits->stall_ns);
    if (due_ns == DEADLINE_NONE)
        timer_heap_clear(&common->timers, &relayed->timer);
    else if (relayed->timer.place == 0 || relayed->timer.due_ns != due_ns)
        timer_heap_set(&common->timers, &relayed->timer, due_ns);
}

/* Sends a GOAWAY, if a frame may be inserted here. */
static void say_why(struct relayed *relayed, enum frame_error error, const char *text)
{
    uint8_t frame[FRAME_GOAWAY_MAX];
    if (relayed->state != RELAYED_OPEN || !frame_is_boundary(&relayed->session.core))
        return;
    size_t n = frame_put_goaway(frame, relayed->session.last_stream, error, text);
    relayed_say_last(relayed, frame, n);
}

/* All calls are answered, and no new one will come. */
static bool may_leave(const struct relayed_common *common, const struct relayed *relayed)
{
    return common->session.is_quitting && relayed->state == RELAYED_OPEN &&
           session_has_left(&relayed->session) && frame_is_boundary(&relayed->session.core) &&
           !relayed->unsent[RELAYED_CLIENT].bytes;
}

static void leave(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    say_why(relayed, FRAME_NO_ERROR, "drained");
    relayed->farewell_bytes = FAREWELL_BYTES;
    relayed_linger(common, relayed, now_ns);
}

void relayed_settle(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    if (may_leave(common, relayed))
        leave(common, relayed, now_ns);
    if (relayed->state == RELAYED_GONE)
        return;
    if (session_is_proven(&relayed->session))
        relayed_leave_unproven(common, relayed);
    else
        relayed_enter_unproven(common, relayed);
    settle_events(common, relayed);
    settle_timer(common, relayed);
}

/* ---- the end ---- */

static void end_handshake(struct relayed_common *common, struct relayed *relayed)
{
    if (relayed->handshake)
        handshakes_forget(common->handshakes, relayed->handshake);
    relayed->handshake = NULL;
    relayed->is_computing = false;
}

void relayed_drop(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    if (relayed->state == RELAYED_GONE)
        return;
    relayed->state = RELAYED_GONE;
    end_handshake(common, relayed);
    tls_link_destroy(relayed->link);
    relayed->link = NULL;
    close_side(relayed, RELAYED_CLIENT);
    close_side(relayed, RELAYED_CORE);
    relayed_keep_none(common, &relayed->unsent[RELAYED_CLIENT]);
    relayed_keep_none(common, &relayed->unsent[RELAYED_CORE]);
    relayed_keep_none(common, &relayed->unwalked);
    timer_heap_clear(&common->timers, &relayed->timer);
    relayed_leave_lists(common, relayed);
    session_finish(&relayed->session, now_ns);
    address_book_leave(common->addresses, relayed->session.address);
    if (common->session.metrics)
        gauge_add(common->session.metrics->connections, -1);
    relayed->next = common->gone;
    common->gone = relayed;
}

void relayed_free_gone(struct relayed_common *common)
{
    while (common->gone) {
        struct relayed *relayed = common->gone;
        assert(relayed->state == RELAYED_GONE);
        common->gone = relayed->next;
        free(relayed->resets);
        free(relayed);
    }
}

/* What the client has sent and the core will not get, and the waits for it. */
static void forget_request_bytes(struct relayed_common *common, struct relayed *relayed)
{
    relayed_keep_none(common, &relayed->unsent[RELAYED_CORE]);
    relayed_keep_none(common, &relayed->unwalked);
    relayed->paused_until_ns = relayed->behind_since_ns = 0;
    relayed_leave_waiting(common, relayed);
}

/* Closes the core's end now; the client has a moment to read the last output. */
void relayed_linger(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    assert(relayed->state != RELAYED_GONE && relayed->state != RELAYED_LINGER);
    end_handshake(common, relayed);
    relayed_say_last(relayed, NULL, 0);
    close_side(relayed, RELAYED_CORE);
    forget_request_bytes(common, relayed);
    relayed_keep_none(common, &relayed->unsent[RELAYED_CLIENT]);
    relayed->state = RELAYED_LINGER;
    relayed->linger_until_ns = now_ns + (relayed->farewell_bytes > 0 ? FAREWELL_NS : LINGER_NS);
    if (shutdown(relayed->fds[RELAYED_CLIENT], SHUT_WR) != 0)
        relayed_drop(common, relayed, now_ns);
}

void relayed_end(struct relayed_common *common, struct relayed *relayed, enum relay_limit limit,
                 enum frame_error error, uint64_t now_ns)
{
    if (relayed->state == RELAYED_GONE || relayed->state == RELAYED_LINGER)
        return;
    if (relayed->state == RELAYED_HANDSHAKE) {
        relayed_drop(common, relayed, now_ns);
        return;
    }
    say_why(relayed, error, relay_limit_name(limit));
    if (relayed->session.is_http1)
        relayed_say_last(relayed, (const uint8_t *)NO_HTTP1, sizeof NO_HTTP1 - 1);
    relayed_linger(common, relayed, now_ns);
    relayed_settle(common, relayed, now_ns);
}

void relayed_give_up(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    say_why(relayed, FRAME_NO_ERROR, relay_limit_name(RELAY_LIMIT_CONNECTIONS));
    relayed_drop(common, relayed, now_ns);
}

/* ---- events ---- */

static void on_core_end(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    close_side(relayed, RELAYED_CORE);
    forget_request_bytes(common, relayed);
    relayed->farewell_bytes = FAREWELL_BYTES;
    if (relayed->unsent[RELAYED_CLIENT].bytes)
        relayed->state = RELAYED_LAST_BYTES;
    else
        relayed_linger(common, relayed, now_ns);
}

void relayed_part(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    if (relayed->state != RELAYED_OPEN || relayed->is_parted)
        return;
    relayed->is_parted = true;
    forget_request_bytes(common, relayed);
    if (shutdown(relayed->fds[RELAYED_CORE], SHUT_RDWR) != 0)
        on_core_end(common, relayed, now_ns);
    relayed_settle(common, relayed, now_ns);
}

static void read_side(struct relayed_common *common, struct relayed *relayed,
                      enum relayed_side side, uint64_t now_ns)
{
    size_t n_max = common->kept_bytes < RELAYED_KEPT_BYTES ? RELAYED_READ_BYTES
                                                           : RELAYED_READ_BYTES_FEW;
    size_t n_rest = side == RELAYED_CORE ? relayed->n_rest : 0;
    ssize_t n = recv(relayed->fds[side], common->buffer + n_rest, n_max - n_rest, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n_rest > 0)
        memcpy(common->buffer, relayed->rest, n_rest);
    if (n <= 0 && side == RELAYED_CORE) {
        if (relayed->is_parted && relayed->session.has_core_settings)
            say_why(relayed, FRAME_NO_ERROR, "drained");
        on_core_end(common, relayed, now_ns);
    } else if (n <= 0) {
        relayed_drop(common, relayed, now_ns);
    } else if (side == RELAYED_CORE) {
        relayed_take_of_core(common, relayed, common->buffer, n_rest + (size_t)n, now_ns);
    } else if (relayed->state == RELAYED_HANDSHAKE) {
        relayed_feed_handshake(common, relayed, (size_t)n, now_ns);
    } else if (relayed->state == RELAYED_LINGER) {
        relayed->farewell_bytes -= (size_t)n < relayed->farewell_bytes ? (uint32_t)n
                                                                       : relayed->farewell_bytes;
    } else {
        if (relayed->link)
            relayed_take_encrypted(common, relayed, (size_t)n, now_ns);
        else
            relayed_take(common, relayed, (size_t)n, now_ns);
        if (!relayed_is_held(relayed) && (size_t)n < n_max)
            relayed->behind_since_ns = 0; /* all input has been read */
    }
}

static void write_side(struct relayed_common *common, struct relayed *relayed,
                       enum relayed_side side, uint64_t now_ns)
{
    if (!relayed->unsent[side].bytes)
        return;
    if (!relayed_send_unsent(common, relayed, side, now_ns)) {
        if (side == RELAYED_CORE)
            relayed_keep_none(common, &relayed->unsent[side]);
        else
            relayed_drop(common, relayed, now_ns);
    }
    if (relayed->state == RELAYED_LAST_BYTES && !relayed->unsent[side].bytes)
        relayed_linger(common, relayed, now_ns);
}

void relayed_on_event(struct relayed_common *common, struct relayed *relayed,
                      enum relayed_side side, uint32_t events, uint64_t now_ns)
{
    bool is_end = events & (EPOLLHUP | EPOLLERR);
    if (events & EPOLLRDHUP && relayed->events[side] & EPOLLRDHUP) {
        /* Unread input is dropped when the client ends the connection, as the core would do. */
        relayed_drop(common, relayed, now_ns);
        return;
    }
    if (relayed->fds[side] >= 0 && (events & EPOLLOUT || is_end))
        write_side(common, relayed, side, now_ns);
    if (relayed->fds[side] >= 0 && relayed->events[side] & EPOLLIN && (events & EPOLLIN || is_end))
        read_side(common, relayed, side, now_ns);
    relayed_settle(common, relayed, now_ns);
}

static bool is_stalled(const struct relayed_common *common, const struct relayed *relayed,
                       uint64_t now_ns)
{
    return relayed->unsent[RELAYED_CLIENT].bytes &&
           now_ns >= relayed->moved_ns + common->session.limits->stall_ns;
}

void relayed_send_away(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    if (relayed->state > RELAYED_OPEN)
        return;
    relayed_mark_away(common, relayed, now_ns);
    relayed_settle(common, relayed, now_ns);
}

void relayed_on_time(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    if (is_stalled(common, relayed, now_ns)) {
        session_count(&common->session, RELAY_LIMIT_STALL_TIME);
        relayed_drop(common, relayed, now_ns);
        return;
    }
    if (relayed->state == RELAYED_LINGER) {
        if (now_ns >= relayed->linger_until_ns)
            relayed_drop(common, relayed, now_ns);
        else
            relayed_settle(common, relayed, now_ns);
        return;
    }
    if (relayed->behind_since_ns > 0 &&
        now_ns >= relayed->behind_since_ns + common->session.limits->behind_ns) {
        session_count(&common->session, RELAY_LIMIT_BEHIND_TIME);
        relayed_end(common, relayed, RELAY_LIMIT_BEHIND_TIME, FRAME_ENHANCE_YOUR_CALM, now_ns);
        return;
    }
    if (relayed->paused_until_ns > 0 && now_ns >= relayed->paused_until_ns) {
        relayed->paused_until_ns = 0;
        relayed_take_unwalked(common, relayed, now_ns);
    }
    while (now_ns >= relayed->session.due_ns &&
           (relayed_is_heard(relayed) || relayed->state == RELAYED_HANDSHAKE)) {
        struct session_event event;
        session_expire(&relayed->session, now_ns, &event);
        relayed_follow(common, relayed, &event, now_ns);
    }
    relayed_settle(common, relayed, now_ns);
}

void relayed_go_on(struct relayed_common *common, uint64_t now_ns)
{
    struct relayed *last = common->last_waiting;
    for (struct relayed *relayed = common->first_waiting, *next; relayed; relayed = next) {
        next = relayed == last ? NULL : relayed->next_waiting;
        if (session_must_wait(&relayed->session, now_ns))
            continue;
        relayed_leave_waiting(common, relayed);
        relayed_take_unwalked(common, relayed, now_ns);
        relayed_settle(common, relayed, now_ns);
    }
}

static enum status begin_handshake(struct relayed_common *common, struct relayed *relayed)
{
    struct tls_link *link;
    TRY(tls_link_create(common->tls, TLS_H2, &link));
    return handshake_create(link, relayed, &relayed->handshake);
}

enum status relayed_create(struct relayed_common *common, int fd, struct address_entry *address,
                           const struct rpc_peer *peer, uint64_t now_ns,
                           struct relayed **relayed_out)
{
    assert(fd >= 0 && address->n_connections > 0);
    struct relayed *relayed = calloc(1, sizeof *relayed);
    if (!relayed) {
        address_book_leave(common->addresses, address);
        close(fd);
        return STATUS_NO_MEMORY;
    }
    enum status status = common->tls ? begin_handshake(common, relayed) : STATUS_OK;
    if (status != STATUS_OK) {
        address_book_leave(common->addresses, address);
        close(fd);
        free(relayed);
        return status;
    }
    relayed->state = common->tls ? RELAYED_HANDSHAKE : RELAYED_NEW;
    relayed->fds[RELAYED_CLIENT] = fd;
    relayed->fds[RELAYED_CORE] = -1;
    relayed->peer = *peer;
    relayed->timer.owner = relayed;
    session_init(&relayed->session, &common->session, address, now_ns);
    relayed_enter_lists(common, relayed);
    relayed->is_sent_away = common->session.is_quitting;
    if (common->session.metrics) {
        counter_add(common->session.metrics->accepted, 1);
        gauge_add(common->session.metrics->connections, 1);
    }
    relayed_settle(common, relayed, now_ns);
    *relayed_out = relayed;
    return STATUS_OK;
}
