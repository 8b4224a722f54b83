#include "api/engine/engine_ask.h"

#include "rpc/borrow.h"
#include "sampling_params/sampling_params.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void engine_ask_init(struct engine_ask *ask)
{
    kvferry__v1__generate_request__init(&ask->request);
    kvferry__v1__sampling_params__init(&ask->sampling);
    kvferry__v1__token_ids__init(&ask->ids);
    ask->request.sampling = &ask->sampling;
    ask->wants = (struct engine_wants){0};
    ask->client_id = "";
}

Kvferry__V1__Constraint *engine_ask_constrain(struct engine_ask *ask,
                                              Kvferry__V1__Constraint__KindCase kind)
{
    kvferry__v1__constraint__init(&ask->constraint);
    ask->constraint.kind_case = kind;
    ask->sampling.constraint = &ask->constraint;
    return &ask->constraint;
}

void engine_ask_choose(struct engine_ask *ask, char *const *texts, size_t n)
{
    kvferry__v1__constraint_choices__init(&ask->choices);
    ask->choices.n_texts = n;
    ask->choices.texts = borrow(texts);
    engine_ask_constrain(ask, KVFERRY__V1__CONSTRAINT__KIND_CHOICES)->choices = &ask->choices;
}

enum status engine_ask_refuse(const char *field, const char *value, const char *why,
                              struct rpc_error *error)
{
    if (value)
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, field, value, "%s is %s: %s", field, value,
                      why);
    else
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, field, NULL, "%s: %s", field, why);
    return STATUS_INVALID_ARGUMENT;
}

enum status engine_ask_refuse_if(bool is_there, const char *field, const char *why,
                                 struct rpc_error *error)
{
    return is_there ? engine_ask_refuse(field, NULL, why, error) : STATUS_OK;
}

enum status engine_ask_name(struct engine_ask *ask, const char *client_id, struct rpc_error *error)
{
    size_t bytes = strlen(client_id);
    if (bytes > ENGINE_ID_MAX) {
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, "request_id", NULL,
                      "request_id has %zu bytes; at most %u are taken", bytes, ENGINE_ID_MAX);
        return STATUS_INVALID_ARGUMENT;
    }
    ask->client_id = client_id;
    return STATUS_OK;
}

void engine_ask_set_ids(struct engine_ask *ask, const uint32_t *ids, size_t n)
{
    ask->ids.ids = borrow(ids);
    ask->ids.n_ids = n;
    ask->request.prompt_case = KVFERRY__V1__GENERATE_REQUEST__PROMPT_TOKEN_IDS;
    ask->request.token_ids = &ask->ids;
}

enum status engine_ask_begin_biases(struct engine_ask *ask, size_t n, const char *field,
                                    struct rpc_error *error)
{
    assert(ask->sampling.n_logit_bias == 0);
    if (n > LOGIT_BIASES_MAX) {
        char value[24];
        snprintf(value, sizeof value, "%zu", n);
        rpc_error_set(error, STATUS_INVALID_ARGUMENT, field, value,
                      "%s has %zu entries; at most %u are taken", field, n, LOGIT_BIASES_MAX);
        return STATUS_INVALID_ARGUMENT;
    }
    ask->sampling.logit_bias = ask->bias_list;
    return STATUS_OK;
}

void engine_ask_add_bias(struct engine_ask *ask, uint32_t token_id, float bias)
{
    const size_t i = ask->sampling.n_logit_bias++;
    assert(i < LOGIT_BIASES_MAX && "engine_ask_begin_biases has counted them");
    kvferry__v1__logit_bias__init(&ask->biases[i]);
    ask->biases[i].token_id = token_id;
    ask->biases[i].bias = bias;
    ask->bias_list[i] = &ask->biases[i];
}

static enum status check_n_top(int64_t n, const char *field, struct rpc_error *error)
{
    char value[24];
    snprintf(value, sizeof value, "%" PRId64, n);
    return n < 0 || n > (int64_t)LOGPROBS_MAX
               ? engine_ask_refuse(field, value, "it must be 0 to 20", error)
               : STATUS_OK;
}

enum status engine_ask_logprobs(struct engine_ask *ask, int64_t n, const char *field,
                                struct rpc_error *error)
{
    TRY(check_n_top(n, field, error));
    ask->wants.has_logprobs = true;
    ask->wants.n_top = (uint32_t)n;
    ask->sampling.logprobs = n > 0 ? (uint32_t)n : 1; /* of the generated token alone is not told */
    return STATUS_OK;
}

enum status engine_ask_scores(struct engine_ask *ask, int64_t n, const char *field,
                              struct rpc_error *error)
{
    TRY(check_n_top(n, field, error));
    ask->wants.has_scores = true;
    ask->wants.n_scores_top = (uint32_t)n;
    ENGINE_SET(ask, prompt_logprobs, PROMPT_LOGPROBS, n > 0 ? (uint32_t)n : 1); /* for the rank */
    return STATUS_OK;
}
