#include "router/requests/beam_replies.h"

#include <math.h>

static bool is_end(Kvferry__V1__FinishReason reason)
{
    return reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP ||
           reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH;
}

bool beam_replies_are_there(const Kvferry__Internal__V1__DecodeResponse *message)
{
    return message->n_beam_replies > 0 || message->n_token_ids > 0 ||
           message->finish_reason != KVFERRY__V1__FINISH_REASON__FINISH_REASON_UNSPECIFIED;
}

bool beam_reply_has_stop(const Kvferry__Internal__V1__BeamReply *reply)
{
    return reply->stop_presence_case == KVFERRY__INTERNAL__V1__BEAM_REPLY__STOP_PRESENCE_STOP;
}

/* A score may be infinite, where length ^ length_penalty is none of float32. */
static bool is_valid(const struct generation *generation,
                     const Kvferry__Internal__V1__BeamReply *reply)
{
    const bool is_stopped = reply->finish_reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_STOP;
    if (beam_reply_has_stop(reply) && (!is_stopped || reply->stop >= generation->stops.n))
        return false;
    return reply->n_token_ids >= 1 &&
           reply->n_token_ids <= generation->sampling.params.max_tokens &&
           is_end(reply->finish_reason) && !isnan(reply->score);
}

bool beam_replies_are_valid(const struct generation *generation,
                            const Kvferry__Internal__V1__DecodeResponse *message)
{
    if (!is_end(message->finish_reason) || message->n_token_ids > 0 ||
        message->n_beam_replies != generation->n_choices)
        return false;
    for (size_t i = 0; i < message->n_beam_replies; i++)
        if (!is_valid(generation, message->beam_replies[i]))
            return false;
    return true;
}
