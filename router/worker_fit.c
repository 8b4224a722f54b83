#include "router/worker_fit.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

bool worker_fits(const struct worker_wanted *wanted, const struct process_state *state,
                 char reason_out[WORKER_REASON_MAX])
{
    assert(wanted->tokenizer_digest[0]);
    const struct model_card *model = &state->model;
    const char *theirs = model->tokenizer_digest;
    reason_out[0] = '\0';
    if (state->role != wanted->role)
        snprintf(reason_out, WORKER_REASON_MAX, "serves another role");
    else if (state->is_draining)
        snprintf(reason_out, WORKER_REASON_MAX, "draining");
    else if (!state->is_ready)
        snprintf(reason_out, WORKER_REASON_MAX, model->vocabulary ? "no progress" : "loading");
    else if (theirs[0] && strcmp(theirs, wanted->tokenizer_digest) != 0)
        snprintf(reason_out, WORKER_REASON_MAX, "its tokenizer is %.32s, not %.32s", theirs,
                 wanted->tokenizer_digest);
    else if (wanted->model_digest && strcmp(model->model_digest, wanted->model_digest) != 0)
        snprintf(reason_out, WORKER_REASON_MAX, "its model is %.32s, not %.32s",
                 model->model_digest, wanted->model_digest);
    return reason_out[0] == '\0';
}
