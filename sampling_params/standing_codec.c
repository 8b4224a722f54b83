#include "sampling_params/standing_codec.h"

void standing_encode(const struct standing *standing, Kvferry__Internal__V1__Standing *message_out)
{
    kvferry__internal__v1__standing__init(message_out);
    message_out->tenant = standing->tenant;
    message_out->weight = standing->weight;
    message_out->priority = standing->priority;
}

void standing_decode(const Kvferry__Internal__V1__Standing *message, struct standing *standing_out)
{
    *standing_out = (struct standing){0};
    if (!message)
        return;
    standing_out->tenant = message->tenant;
    standing_out->weight = message->weight;
    standing_out->priority = message->priority;
}
