#include "base/clock.h"
#include "rpc/relay/relayed_parts.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* ---- bytes kept ---- */

void relayed_keep_none(struct relayed_common *common, struct relayed_bytes *kept)
{
    assert(kept->at <= kept->n && kept->n <= common->kept_bytes);
    common->kept_bytes -= kept->n;
    free(kept->bytes);
    *kept = (struct relayed_bytes){0};
}

bool relayed_keep(struct relayed_common *common, struct relayed_bytes *kept, const uint8_t *bytes,
                  size_t n)
{
    assert(n > 0); /* NULL bytes mean that nothing is kept */
    size_t n_before = kept->bytes ? kept->n - kept->at : 0;
    uint8_t *all = malloc(n_before + n);
    if (!all)
        return false;
    if (n_before > 0)
        memcpy(all, kept->bytes + kept->at, n_before);
    memcpy(all + n_before, bytes, n);
    relayed_keep_none(common, kept);
    *kept = (struct relayed_bytes){.bytes = all, .n = n_before + n};
    common->kept_bytes += kept->n;
    return true;
}

/* ---- sending ---- */

void relayed_say_last(struct relayed *relayed, const uint8_t *bytes, size_t n)
{
    assert(relayed->fds[RELAYED_CLIENT] >= 0);
    if (relayed->unsent[RELAYED_CLIENT].bytes)
        return;
    if (relayed->link) {
        if (n == 0)
            tls_link_end(relayed->link);
        else if (!tls_link_write(relayed->link, bytes, n))
            return;
        n = tls_link_output(relayed->link, &bytes);
    }
    if (n > 0)
        (void)!send(relayed->fds[RELAYED_CLIENT], bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (relayed->link)
        tls_link_sent(relayed->link);
}

/* False: that side cannot be written any more. */
static bool send_bytes(struct relayed_common *common, struct relayed *relayed,
                       enum relayed_side side, const uint8_t *bytes, size_t n, uint64_t now_ns)
{
    assert(relayed->fds[side] >= 0);
    struct relayed_bytes *unsent = &relayed->unsent[side];
    size_t n_sent = 0;
    if (!unsent->bytes && n > 0) {
        ssize_t sent = send(relayed->fds[side], bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        n_sent = sent > 0 ? (size_t)sent : 0;
        relayed->moved_ns = now_ns;
    }
    return n_sent == n || relayed_keep(common, unsent, bytes + n_sent, n - n_sent);
}

bool relayed_send_unsent(struct relayed_common *common, struct relayed *relayed,
                         enum relayed_side side, uint64_t now_ns)
{
    struct relayed_bytes *unsent = &relayed->unsent[side];
    assert(relayed->fds[side] >= 0 && unsent->bytes && unsent->at < unsent->n);
    ssize_t sent = send(relayed->fds[side], unsent->bytes + unsent->at, unsent->n - unsent->at,
                        MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    unsent->at += (size_t)sent;
    relayed->moved_ns = now_ns;
    if (unsent->at == unsent->n)
        relayed_keep_none(common, unsent);
    return true;
}

void relayed_to_core(struct relayed_common *common, struct relayed *relayed, const uint8_t *bytes,
                     size_t n, uint64_t now_ns)
{
    if (!send_bytes(common, relayed, RELAYED_CORE, bytes, n, now_ns))
        relayed_keep_none(common, &relayed->unsent[RELAYED_CORE]);
}

void relayed_send_output(struct relayed_common *common, struct relayed *relayed,
                         struct tls_link *link, uint64_t now_ns)
{
    const uint8_t *bytes;
    size_t n = tls_link_output(link, &bytes);
    if (n == 0)
        return;
    if (send_bytes(common, relayed, RELAYED_CLIENT, bytes, n, now_ns))
        tls_link_sent(link);
    else
        relayed_drop(common, relayed, now_ns);
}

void relayed_to_client(struct relayed_common *common, struct relayed *relayed, const uint8_t *bytes,
                       size_t n, uint64_t now_ns)
{
    if (relayed->link && tls_link_write(relayed->link, bytes, n))
        relayed_send_output(common, relayed, relayed->link, now_ns);
    else if (relayed->link || !send_bytes(common, relayed, RELAYED_CLIENT, bytes, n, now_ns))
        relayed_drop(common, relayed, now_ns);
}

/* ---- frames that the relay adds ---- */

bool relayed_has_waiting(const struct relayed *relayed)
{
    return relayed->n_resets > 0 || relayed->session.n_granted > 0 ||
           (relayed->is_sent_away && relayed->session.has_core_settings);
}

/* The highest stream id, so that no stream is refused. */
static void say_goaway(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    uint8_t frame[FRAME_GOAWAY_MAX];
    relayed->is_sent_away = false;
    size_t n = frame_put_goaway(frame, FRAME_STREAM_MAX, FRAME_NO_ERROR, "draining");
    relayed_to_client(common, relayed, frame, n, now_ns);
    if (relayed->state != RELAYED_OPEN || !common->session.is_quitting)
        return;
    uint8_t ping[FRAME_PING_BYTES];
    frame_put_ping(ping);
    session_leave(&relayed->session);
    relayed_to_client(common, relayed, ping, sizeof ping, now_ns);
}

void relayed_send_waiting(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    if (relayed->is_sent_away && relayed->session.has_core_settings)
        say_goaway(common, relayed, now_ns);
    uint8_t update[FRAME_UPDATE_BYTES];
    while (relayed->state == RELAYED_OPEN && session_take_granted(&relayed->session, update))
        relayed_to_client(common, relayed, update, sizeof update, now_ns);
    uint32_t n = relayed->n_resets;
    relayed->n_resets = 0;
    for (uint32_t i = 0; i < n && relayed->state == RELAYED_OPEN; i++) {
        uint8_t frame[FRAME_RESET_BYTES];
        frame_put_reset(frame, relayed->resets[i].stream, relayed->resets[i].error);
        relayed_to_client(common, relayed, frame, sizeof frame, now_ns);
    }
}

void relayed_mark_away(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    relayed->is_sent_away = true;
    if (relayed->state == RELAYED_OPEN && frame_is_boundary(&relayed->session.core))
        relayed_send_waiting(common, relayed, now_ns);
}

static bool add_waiting_reset(struct relayed *relayed, const struct session_event *event)
{
    if (!relayed->resets)
        relayed->resets = calloc(RELAYED_RESETS_MAX, sizeof *relayed->resets);
    if (!relayed->resets || relayed->n_resets == RELAYED_RESETS_MAX)
        return false;
    relayed->resets[relayed->n_resets].stream = event->stream;
    relayed->resets[relayed->n_resets++].error = event->error;
    return true;
}

void relayed_reset_stream(struct relayed_common *common, struct relayed *relayed,
                          const struct session_event *event, uint64_t now_ns)
{
    uint8_t frame[FRAME_RESET_BYTES];
    frame_put_reset(frame, event->stream, event->error);
    relayed_to_core(common, relayed, frame, sizeof frame, now_ns);
    if (frame_is_boundary(&relayed->session.core))
        relayed_to_client(common, relayed, frame, sizeof frame, now_ns);
    else if (!add_waiting_reset(relayed, event))
        relayed_drop(common, relayed, now_ns);
}

/* ---- room for large requests ---- */

/* The connection whose address uses the least room, and of those the one that waits longest; NULL: none can
 * continue. */
static struct relayed *find_next(struct relayed_common *common)
{
    struct relayed *found = NULL;
    uint64_t found_ns = DEADLINE_NONE;
    for (struct relayed *relayed = common->first; relayed; relayed = relayed->next) {
        uint64_t since_ns = session_wants_room_ns(&relayed->session);
        if (relayed->state != RELAYED_OPEN || since_ns == DEADLINE_NONE)
            continue;
        uint64_t bytes = relayed->session.address->room.bytes;
        uint64_t least = found ? found->session.address->room.bytes : UINT64_MAX;
        if (bytes < least || (bytes == least && since_ns < found_ns)) {
            found = relayed;
            found_ns = since_ns;
        }
    }
    return found;
}

void relayed_make_room(struct relayed_common *common, uint64_t now_ns)
{
    struct request_room *room = &common->session.room;
    if (!room->has_freed)
        return;
    room->has_freed = false;
    struct relayed *next;
    while (room->n_waiting > 0 && (next = find_next(common)) != NULL) {
        session_grant(&next->session, now_ns);
        if (frame_is_boundary(&next->session.core))
            relayed_send_waiting(common, next, now_ns);
        relayed_settle(common, next, now_ns);
    }
}
