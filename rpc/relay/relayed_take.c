/* relayed_take - the input from both sides of a connection: the session walks it, and its events say what is
 * forwarded. */
#include "rpc/relay/peer_table.h"
#include "rpc/relay/relayed_parts.h"

#include <assert.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Gives the core its end, and sends it the preface. */
static void begin(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    assert(relayed->state == RELAYED_NEW && relayed->fds[RELAYED_CORE] < 0);
    int pair[2];
    if (common->is_closing) {
        relayed_drop(common, relayed, now_ns);
        return;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        session_count(&common->session, RELAY_LIMIT_DESCRIPTORS);
        relayed_drop(common, relayed, now_ns);
        return;
    }
    relayed->fds[RELAYED_CORE] = pair[0];
    if (peer_table_set(pair[1], &relayed->peer) != STATUS_OK) {
        close(pair[1]);
        relayed_drop(common, relayed, now_ns);
        return;
    }
    relayed->state = RELAYED_OPEN;
    common->hand_over(common->arg, pair[1]);
    relayed_to_core(common, relayed, (const uint8_t *)FRAME_PREFACE, FRAME_PREFACE_BYTES, now_ns);
}

void relayed_follow(struct relayed_common *common, struct relayed *relayed,
                    const struct session_event *event, uint64_t now_ns)
{
    switch (event->kind) {
    case SESSION_NOTHING:
    case SESSION_SKIP:
        break;
    case SESSION_BEGIN:
        begin(common, relayed, now_ns);
        break;
    case SESSION_PAUSE:
        relayed->paused_until_ns = event->until_ns;
        if (relayed->behind_since_ns == 0)
            relayed->behind_since_ns = now_ns;
        break;
    case SESSION_WAIT:
        relayed_enter_waiting(common, relayed);
        break;
    case SESSION_RESET:
        relayed_reset_stream(common, relayed, event, now_ns);
        break;
    case SESSION_CLOSE:
        relayed_end(common, relayed, event->limit, event->error, now_ns);
        break;
    }
}

/* Returns how many bytes were processed: fewer than n if it must pause or wait, or ends. */
static size_t take_client_bytes(struct relayed_common *common, struct relayed *relayed,
                                const uint8_t *bytes, size_t n, uint64_t now_ns)
{
    size_t n_taken = 0;
    while (n_taken < n && !relayed_is_held(relayed) && relayed_is_heard(relayed)) {
        struct session_event event;
        bool is_open = relayed->state == RELAYED_OPEN;
        size_t n_walked = session_client(&relayed->session, bytes + n_taken, n - n_taken, now_ns,
                                         &event);
        size_t n_same = n_walked - (event.allows_one ? 1 : 0);
        if (is_open && n_walked > 0)
            relayed_to_core(common, relayed, bytes + n_taken, n_same, now_ns);
        if (is_open && n_same < n_walked)
            relayed_to_core(common, relayed, (const uint8_t[]){1}, 1, now_ns);
        n_taken += n_walked;
        relayed_follow(common, relayed, &event, now_ns);
    }
    return n_taken;
}

/* Decrypts n bytes of the common buffer. While it is paused or waits, none are processed. */
void relayed_take(struct relayed_common *common, struct relayed *relayed, size_t n, uint64_t now_ns)
{
    assert(relayed_is_held(relayed) || !relayed->unwalked.bytes); /* the kept bytes come first */
    size_t n_taken = take_client_bytes(common, relayed, common->buffer, n, now_ns);
    if (relayed_is_held(relayed) && n_taken < n &&
        !relayed_keep(common, &relayed->unwalked, common->buffer + n_taken, n - n_taken))
        relayed_drop(common, relayed, now_ns);
}

/* Processes the bytes that TLS has already received. */
void relayed_take_decrypted(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    enum tls_progress progress;
    do {
        size_t n;
        progress = tls_link_read(relayed->link, common->buffer, RELAYED_READ_BYTES, &n);
        relayed_take(common, relayed, n, now_ns);
    } while (progress == TLS_DONE && relayed_is_heard(relayed));
    if (!relayed_is_heard(relayed))
        return;
    relayed_send_output(common, relayed, relayed->link, now_ns);
    if (progress != TLS_FAILED || relayed->state == RELAYED_GONE)
        return;
    if (tls_link_failure(relayed->link)[0])
        session_count(&common->session, RELAY_LIMIT_TLS);
    relayed_drop(common, relayed, now_ns);
}

void relayed_take_encrypted(struct relayed_common *common, struct relayed *relayed, size_t n,
                            uint64_t now_ns)
{
    if (tls_link_feed(relayed->link, common->buffer, n))
        relayed_take_decrypted(common, relayed, now_ns);
    else
        relayed_drop(common, relayed, now_ns);
}

void relayed_take_unwalked(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    struct relayed_bytes *unwalked = &relayed->unwalked;
    if (!unwalked->bytes)
        return;
    size_t n = take_client_bytes(common, relayed, unwalked->bytes + unwalked->at,
                                 unwalked->n - unwalked->at, now_ns);
    if (!unwalked->bytes) /* the connection has ended meanwhile */
        return;
    unwalked->at += n;
    if (unwalked->at == unwalked->n)
        relayed_keep_none(common, unwalked);
}

/* Keeps the rest: less than a frame's head and the number of a WINDOW_UPDATE. */
static void keep_rest(struct relayed *relayed, const uint8_t *bytes, size_t n)
{
    assert(n < sizeof relayed->rest);
    memcpy(relayed->rest, bytes, n);
    relayed->n_rest = (uint8_t)n;
}

/* Skips those of n_bytes that have arrived, and later the rest. */
static size_t skip(struct relayed *relayed, uint32_t n_bytes, size_t n_there)
{
    uint32_t n = n_bytes < n_there ? n_bytes : (uint32_t)n_there;
    relayed->n_skip = n_bytes - n;
    return n;
}

void relayed_take_of_core(struct relayed_common *common, struct relayed *relayed,
                          const uint8_t *bytes, size_t n, uint64_t now_ns)
{
    assert(relayed->n_skip == 0 || relayed->n_rest == 0);
    size_t n_taken = skip(relayed, relayed->n_skip, n);
    relayed->n_rest = 0;
    while (n_taken < n && relayed->state == RELAYED_OPEN) {
        struct session_event event;
        size_t n_walked = session_core(&relayed->session, bytes + n_taken, n - n_taken,
                                       relayed_has_waiting(relayed), now_ns, &event);
        relayed_to_client(common, relayed, bytes + n_taken, n_walked, now_ns);
        n_taken += n_walked;
        if (relayed->state != RELAYED_OPEN)
            return;
        if (event.kind == SESSION_SKIP)
            n_taken += skip(relayed, event.n_bytes, n - n_taken);
        relayed_follow(common, relayed, &event, now_ns);
        if (!frame_is_boundary(&relayed->session.core))
            continue;
        if (relayed_has_waiting(relayed))
            relayed_send_waiting(common, relayed, now_ns);
        if (frame_missing(bytes + n_taken, n - n_taken) > 0) {
            keep_rest(relayed, bytes + n_taken, n - n_taken);
            return;
        }
    }
}
