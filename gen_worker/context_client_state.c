#include "gen_worker/context_client_state.h"

#include <stdlib.h>

void context_client_lock(struct context_client *client)
{
    pthread_mutex_lock(&client->mutex);
}

void context_client_unlock(struct context_client *client)
{
    pthread_mutex_unlock(&client->mutex);
}

struct context_unary *context_unary_create(struct context_client *client, struct context_peer *peer)
{
    struct context_unary *unary = calloc(1, sizeof *unary);
    if (!unary)
        return NULL;
    unary->client = client;
    unary->peer = peer;
    unary->status = STATUS_PEER_LOST; /* until a message comes */
    peer->n_users++;
    return unary;
}
