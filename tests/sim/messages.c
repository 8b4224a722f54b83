#include "tests/sim/messages.h"

#include <stdio.h>
#include <string.h>

struct sim_message *sim_message_new(struct wire *wire, enum sim_message_kind kind)
{
    struct sim_message *message = wire_alloc(wire, sizeof *message);
    message->base.kind = (int)kind;
    message->base.is_last = kind == SIM_END;
    return message;
}

void *sim_copy(struct wire *wire, const void *bytes, size_t n_bytes)
{
    void *copy = wire_alloc(wire, n_bytes > 0 ? n_bytes : 1);
    if (n_bytes > 0)
        memcpy(copy, bytes, n_bytes);
    return copy;
}

struct oracle_replies *sim_copy_replies(struct wire *wire, const struct beam_search *search)
{
    struct oracle_replies *replies = wire_alloc(wire, sizeof *replies);
    replies->n = beam_search_n_results(search);
    for (uint32_t i = 0; i < replies->n; i++) {
        const struct beam_result result = beam_search_result(search, i);
        replies->all[i].n_tokens = result.n_tokens;
        replies->all[i].score = result.score;
        replies->all[i].is_end = result.is_end;
        beam_search_tokens(search, i, replies->all[i].tokens);
    }
    return replies;
}

void sim_copy_scores(struct wire *wire, const struct prompt_scores *scores,
                     struct prompt_scores *copy_out)
{
    *copy_out = *scores;
    copy_out->logprobs = sim_copy(wire, scores->logprobs, scores->n * sizeof *scores->logprobs);
}

void sim_send_end(struct wire_call *call, struct wire *wire, enum status status,
                  const char *sentence)
{
    struct sim_message *message = sim_message_new(wire, SIM_END);
    message->end.status = status;
    snprintf(message->end.sentence, sizeof message->end.sentence, "%s", sentence);
    wire_send(call, WIRE_SERVER, &message->base);
}
