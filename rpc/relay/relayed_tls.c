/* relayed_tls - the TLS handshake of a connection. */
#include "base/clock.h"
#include "base/log/log.h"
#include "rpc/relay/relayed_parts.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define LOG_FAILURES_NS (10 * NS_PER_S)

void relayed_feed_handshake(struct relayed_common *common, struct relayed *relayed, size_t n,
                            uint64_t now_ns)
{
    if (!tls_link_feed(handshake_link(relayed->handshake), common->buffer, n)) {
        session_count(&common->session, RELAY_LIMIT_TLS);
        relayed_drop(common, relayed, now_ns);
        return;
    }
    relayed->is_computing = true;
    handshakes_step(common->handshakes, relayed->handshake);
}

static void note_failure(struct relayed_common *common, const struct relayed *relayed,
                         uint64_t now_ns)
{
    struct failed_handshakes *failed = &common->failed_handshakes;
    failed->n++;
    session_count(&common->session, RELAY_LIMIT_TLS);
    if (now_ns < failed->log_at_ns)
        return;
    log_warn("TLS handshakes failed %" PRIu32 ": the last of %s: %s", failed->n,
             relayed->peer.address, tls_link_failure(handshake_link(relayed->handshake)));
    failed->n = 0;
    failed->log_at_ns = now_ns + LOG_FAILURES_NS;
}

static void name_client(struct relayed *relayed)
{
    struct tls_uris uris;
    tls_link_uris(relayed->link, &uris);
    const char *identity = tls_uris_identity(&uris);
    relayed->peer.is_encrypted = true;
    snprintf(relayed->peer.identity, sizeof relayed->peer.identity, "%s", identity ? identity : "");
}

static void begin_encrypted(struct relayed_common *common, struct relayed *relayed, uint64_t now_ns)
{
    assert(!relayed->link);
    relayed->link = handshake_finish(relayed->handshake);
    relayed->handshake = NULL;
    relayed->state = RELAYED_NEW;
    name_client(relayed);
    if (common->session.metrics)
        counter_add(common->session.metrics->handshakes, 1);
    relayed_take_decrypted(common, relayed, now_ns);
}

void relayed_on_handshake(struct relayed_common *common, struct relayed *relayed,
                          enum tls_progress progress, uint64_t now_ns)
{
    assert(relayed->state == RELAYED_HANDSHAKE && relayed->is_computing);
    relayed->is_computing = false;
    relayed_send_output(common, relayed, handshake_link(relayed->handshake), now_ns);
    if (relayed->state == RELAYED_HANDSHAKE && progress == TLS_DONE) {
        begin_encrypted(common, relayed, now_ns);
    } else if (relayed->state == RELAYED_HANDSHAKE && progress == TLS_FAILED) {
        note_failure(common, relayed, now_ns);
        relayed_linger(common, relayed, now_ns);
    }
    relayed_settle(common, relayed, now_ns);
}
