#include "router/workers/worker_fit.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void refuse_model(const uint64_t wanted[2], const uint64_t theirs[2],
                         char reason_out[PEER_REASON_MAX])
{
    char texts[2][DIGEST_TEXT_BYTES];
    if (wanted[0] == theirs[0] && wanted[1] == theirs[1])
        return;
    digest_format(wanted, texts[0]);
    digest_format(theirs, texts[1]);
    snprintf(reason_out, PEER_REASON_MAX, "its model is %s, not %s", texts[1], texts[0]);
}

bool worker_fits(const struct worker_wanted *wanted, const struct process_state *state,
                 char reason_out[PEER_REASON_MAX])
{
    assert(wanted->tokenizer_digest[0]);
    const struct model_card *model = &state->model;
    const char *theirs = model->tokenizer_digest;
    reason_out[0] = '\0';
    if (state->role != wanted->role)
        snprintf(reason_out, PEER_REASON_MAX, "serves another role");
    else if (state->is_draining)
        snprintf(reason_out, PEER_REASON_MAX, "draining");
    else if (!state->is_ready)
        snprintf(reason_out, PEER_REASON_MAX, model->vocabulary ? "no progress" : "loading");
    else if (theirs[0] && strcmp(theirs, wanted->tokenizer_digest) != 0)
        snprintf(reason_out, PEER_REASON_MAX, "its tokenizer is %.32s, not %.32s", theirs,
                 wanted->tokenizer_digest);
    else if (!model->has_geometry)
        snprintf(reason_out, PEER_REASON_MAX, "its state has no KV layout");
    else if (wanted->model_digest)
        refuse_model(wanted->model_digest, model->geometry.model_digest, reason_out);
    return reason_out[0] == '\0';
}

bool worker_pair_fits(const struct process_state *generation_worker,
                      const struct process_state *context_worker, const char *context_address,
                      char reason_out[PEER_REASON_MAX])
{
    struct error error = {0};
    const struct kv_terms here = {&generation_worker->model.geometry, generation_worker->transport,
                                  generation_worker->allow_numerics, generation_worker->kv_convert};
    const struct kv_terms there = {&context_worker->model.geometry, context_worker->transport, "",
                                   false};
    if (kv_terms_match(&here, &there, &error) != STATUS_OK) {
        snprintf(reason_out, PEER_REASON_MAX, "%.*s", PEER_REASON_MAX - 1, error.text);
        return false;
    }
    for (uint32_t i = 0; i < generation_worker->n_peers; i++) {
        const struct process_peer *peer = &generation_worker->peers[i];
        if (!peer->is_refused || strcmp(peer->address, context_address) != 0)
            continue;
        snprintf(reason_out, PEER_REASON_MAX, "%s", peer->reason);
        return false;
    }
    reason_out[0] = '\0';
    return true;
}
