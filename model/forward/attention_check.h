/*
 * attention_check - whether the attention of each layer of a model can be computed with given options. Asks the operator itself: the
 * layers are created as forward_create creates them, and destroyed. The model may be without_weights.
 *
 * Thread: one at a time; no state.
 */
#pragma once

#include "model/forward/forward.h"

struct attention_answer {
    enum status
        status; /* OK: it can be computed. INVALID_ARGUMENT, UNSUPPORTED: error says why not */
    struct error error;
}; /* of a layer with recurrent state: OK */

/* answers_out: [n_layers of the model]. options: threads may be NULL. INVALID_ARGUMENT: an option that no layer of the model can have, as
 * forward_create. NO_MEMORY. */
MUST_CHECK enum status attention_check(const struct model *model,
                                       const struct forward_options *options, struct error *error,
                                       struct attention_answer *answers_out);

/* Of all layers: OK, or the status and sentence of the first that is refused. */
MUST_CHECK enum status attention_check_join(const struct attention_answer *answers,
                                            uint32_t n_layers, struct error *error);
/* attention_check, and then attention_check_join. */
MUST_CHECK enum status attention_check_all(const struct model *model,
                                           const struct forward_options *options,
                                           struct error *error);

/* Whether the operator is asked for the same in both layers. */
bool attention_check_is_alike(const struct model_config *config, uint32_t layer, uint32_t other);
