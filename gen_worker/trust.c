#include "gen_worker/trust.h"

#include "base/log/log.h"
#include "engine/prefix_tier.h"
#include "gen_worker/sequence_handover.h"

#include <assert.h>
#include <inttypes.h>

static const char SENTENCE[] = "KV of a context worker that is no longer trusted";

void trust_withdraw(const struct gen_home *home, uint64_t incarnation, uint64_t now_ns)
{
    uint32_t n_ended = 0;
    assert(incarnation != 0 && "that is this worker's own KV");
    for (uint32_t i = 0; i < home->options->sequences_max; i++) {
        struct sequence *sequence = &home->sequences[i];
        if (!sequence_has_job(sequence))
            continue;
        if (sequence_has_used(sequence, home, incarnation)) {
            sequence_end(sequence, home, STATUS_TRANSFER_FAILED, SENTENCE);
            n_ended++;
        } else if (sequence->handover && sequence->handover->incarnation == incarnation) {
            sequence_fall_back(sequence, home, STATUS_TRANSFER_FAILED, SENTENCE, now_ns);
        }
    }
    /* After the sequences, because the end of one adds its blocks to the cache. */
    uint32_t n_dropped = kv_manager_drop(home->manager, incarnation);
    prefix_tier_drop(home->tier, incarnation);
    log_warn("run %016" PRIx64
             " of a context worker is no longer trusted: cached blocks dropped %u, "
             "sequences ended %u",
             incarnation, n_dropped, n_ended);
}
