/*
 * engine_ask - a request of a gateway as kvferry.v1's GenerateRequest, and what of its reply is wanted.
 *
 * It borrows the message that it was made of. Fields are judged later, by router/intake; what only the message's own protocol
 * knows is refused where it is read, by engine_ask_refuse.
 *
 * Thread: one; it is large: a service has one, for the handler that runs.
 */
#pragma once

#include "router/requests/door.h"
#include "sampling_params/token_rules.h"

#include <stdbool.h>
#include <stdint.h>

#define ENGINE_ID_MAX 512u /* bytes of a client's id */

/* Of a reply. */
struct engine_wants {
    bool is_stream; /* a message for each piece; else one for each choice */
    bool is_unary;  /* the call takes one message */
    bool has_text, has_ids, has_prompt_ids;
    bool ignores_eos; /* such a token ends the reply only as a stop token */
    bool has_logprobs;
    uint32_t n_top;  /* of the likeliest tokens, beside the generated one */
    bool has_scores; /* log-probabilities of the prompt's tokens, in the first message */
    uint32_t n_scores_top;
};

struct engine_ask {
    Kvferry__V1__GenerateRequest request;
    Kvferry__V1__SamplingParams sampling;
    Kvferry__V1__TokenIds ids;
    Kvferry__V1__Constraint constraint;
    Kvferry__V1__ConstraintChoices choices;
    Kvferry__V1__LogitBias biases[LOGIT_BIASES_MAX];
    Kvferry__V1__LogitBias *bias_list[LOGIT_BIASES_MAX];
    char salt[33]; /* of a request that is to find no cached prefix */
    struct engine_wants wants;
    const char *client_id;
};

/* Sets a field of the sampling that has a presence. */
#define ENGINE_SET(ask, field, FIELD, value)                                                       \
    ((ask)->sampling.field##_presence_case =                                                       \
         KVFERRY__V1__SAMPLING_PARAMS__##FIELD##_PRESENCE_##FIELD,                                 \
     (ask)->sampling.field = (value))

/* Empty; every choice is the server's. */
void engine_ask_init(struct engine_ask *ask);

/* INVALID_ARGUMENT: the client's id has more than ENGINE_ID_MAX bytes. */
MUST_CHECK enum status engine_ask_name(struct engine_ask *ask, const char *client_id,
                                       struct rpc_error *error);
void engine_ask_set_ids(struct engine_ask *ask, const uint32_t *ids, size_t n);
/* INVALID_ARGUMENT: more than LOGIT_BIASES_MAX; field is the list's path. */
MUST_CHECK enum status engine_ask_begin_biases(struct engine_ask *ask, size_t n, const char *field,
                                               struct rpc_error *error);
void engine_ask_add_bias(struct engine_ask *ask, uint32_t token_id, float bias);
/* Asks for log-probabilities, those of the n likeliest tokens, too. INVALID_ARGUMENT: n is not 0 to LOGPROBS_MAX. */
MUST_CHECK enum status engine_ask_logprobs(struct engine_ask *ask, int64_t n, const char *field,
                                           struct rpc_error *error);

/* The same of the prompt's tokens. */
MUST_CHECK enum status engine_ask_scores(struct engine_ask *ask, int64_t n, const char *field,
                                         struct rpc_error *error);

/* What the text of the reply must be. A member of constraint is set by who calls it. */
Kvferry__V1__Constraint *engine_ask_constrain(struct engine_ask *ask,
                                              Kvferry__V1__Constraint__KindCase kind);
/* One of these texts. */
void engine_ask_choose(struct engine_ask *ask, char *const *texts, size_t n);

/* INVALID_ARGUMENT: "FIELD is VALUE: WHY"; without a value "FIELD: WHY". */
MUST_CHECK enum status engine_ask_refuse(const char *field, const char *value, const char *why,
                                         struct rpc_error *error);
/* The same where is_there says that the field is given. */
MUST_CHECK enum status engine_ask_refuse_if(bool is_there, const char *field, const char *why,
                                            struct rpc_error *error);
