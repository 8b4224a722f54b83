/* relay_session_fuzz - whatever a client and the core say in whatever pieces, a session keeps its counts,
 * walks what it is given and comes to an end; what it lets pass is what came.
 *
 *     input: turns of [what 1][bytes 2, little endian][bytes...]; what & 3: 0 client, 1 core, 2 time
 */
#include "base/clock.h"
#include "rpc/relay/session.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

struct bed {
    struct relay_limits limits;
    struct session_common common;
    struct network_list exempt;
    struct address_book *book;
    struct address_entry *address;
    struct session session;
    uint64_t now_ns;
    uint64_t paused_until_ns;
    bool is_over;
};

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

static void check_counts(const struct bed *bed)
{
    const struct session *session = &bed->session;
    uint32_t n_half_open = 0, last = 0;
    for (uint32_t i = 0; i < session->streams.n; i++) {
        const struct open_stream *stream = &session->streams.streams[i];
        check(i == 0 || stream->id > last);
        last = stream->id;
        n_half_open += !(stream->is & (STREAM_REQUEST_ENDED | STREAM_ANSWERED));
    }
    check(n_half_open == session->n_half_open && n_half_open == bed->address->n_half_open &&
          n_half_open == bed->common.n_half_open);
    check(session->streams.n == bed->address->n_streams);
    check(session->streams.n <= bed->limits.streams_max + SESSION_STREAMS_SLACK);
    check(n_half_open <= bed->limits.half_open_max &&
          n_half_open <= bed->limits.address_half_open_max);
    check(session->header_bytes <= bed->limits.header_bytes_max || bed->is_over);
}

static void follow(struct bed *bed, const struct session_event *event)
{
    if (event->kind == SESSION_CLOSE)
        bed->is_over = true;
    if (event->kind == SESSION_PAUSE) {
        check(event->until_ns > bed->now_ns);
        bed->paused_until_ns = event->until_ns;
    }
    if (event->kind == SESSION_WAIT) {
        check(session_must_wait(&bed->session, bed->now_ns));
        bed->now_ns += 2 * TURNS_ROUND_NS;
        check(!session_must_wait(&bed->session, bed->now_ns));
    }
    if (event->kind == SESSION_RESET)
        check(session_may_reset(&bed->session) && event->stream != 0);
}

static void from_client(struct bed *bed, const uint8_t *bytes, size_t n)
{
    struct session_event event = {.kind = SESSION_NOTHING};
    for (size_t at = 0; at < n && !bed->is_over;) {
        if (bed->paused_until_ns > bed->now_ns)
            bed->now_ns = bed->paused_until_ns;
        size_t n_walked = session_client(&bed->session, bytes + at, n - at, bed->now_ns, &event);
        check(n_walked <= n - at);
        check(n_walked > 0 || event.kind != SESSION_NOTHING);
        at += n_walked;
        follow(bed, &event);
        check_counts(bed);
    }
}

static void from_core(struct bed *bed, const uint8_t *bytes, size_t n, bool wants_boundary)
{
    struct session_event event;
    for (size_t at = 0; at < n;) {
        size_t n_walked = session_core(&bed->session, bytes + at, n - at, false, bed->now_ns,
                                       &event);
        check(n_walked <= n - at);
        at += n_walked;
        follow(bed, &event);
        if (event.kind == SESSION_SKIP)
            at += event.n_bytes < n - at ? event.n_bytes : n - at;
        else if (n_walked == 0)
            break; /* what is left tells too little: relayed.c keeps it, here it is lost */
    }
    if (wants_boundary && frame_is_boundary(&bed->session.core))
        check(session_core(&bed->session, bytes, n, true, bed->now_ns, &event) == 0);
    check_counts(bed);
}

static void pass_time(struct bed *bed, uint64_t ms)
{
    struct session_event event;
    bed->now_ns += ms * NS_PER_MS;
    for (uint32_t n = 0; !bed->is_over && bed->now_ns >= bed->session.due_ns; n++) {
        check(n <= bed->limits.streams_max + SESSION_STREAMS_SLACK + 1);
        session_expire(&bed->session, bed->now_ns, &event);
        follow(bed, &event);
        check(event.kind != SESSION_NOTHING || bed->session.due_ns > bed->now_ns);
    }
    check_counts(bed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    struct bed bed = {.now_ns = NS_PER_S};
    const struct network_address address = {{1}};
    relay_limits_init(&bed.limits);
    bed.limits.streams_max = 20;
    bed.limits.address_half_open_max = 8;
    bed.limits.unanswered_max = 6;
    bed.common.limits = &bed.limits;
    if (address_book_create(&bed.exempt, &bed.book) != STATUS_OK)
        return 0;
    bed.address = address_book_enter(bed.book, &address);
    session_init(&bed.session, &bed.common, bed.address, bed.now_ns);
    from_client(&bed, (const uint8_t *)FRAME_PREFACE, FRAME_PREFACE_BYTES);
    while (n_bytes > 3 && !bed.is_over) {
        uint8_t what = bytes[0] & 3;
        size_t n = (size_t)bytes[1] | (size_t)bytes[2] << 8;
        bool wants_boundary = bytes[0] & 4;
        bytes += 3;
        n_bytes -= 3;
        if (what == 2) {
            pass_time(&bed, n);
            continue;
        }
        n = n < n_bytes ? n : n_bytes;
        if (what == 1)
            from_core(&bed, bytes, n, wants_boundary);
        else
            from_client(&bed, bytes, n);
        bytes += n;
        n_bytes -= n;
    }
    session_finish(&bed.session, bed.now_ns);
    check(bed.address->n_streams == 0 && bed.common.n_half_open == 0);
    check(bed.common.n_half_open_addresses == 0 && bed.common.room.n_waiting == 0);
    check(bed.common.room.bytes == 0 && bed.address->room.bytes == 0);
    address_book_leave(bed.book, bed.address);
    address_book_destroy(bed.book);
    return 0;
}
