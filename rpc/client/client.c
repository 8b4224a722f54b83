#include "rpc/client/client.h"

#include "rpc/client/client_state.h"
#include "rpc/tls/tls_identity.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define RECONNECT_FIRST_MS 100
#define CONNECT_TIMEOUT_MS 5000 /* of one connection attempt */

void rpc_client_options_init(struct rpc_client_options *options)
{
    *options = (struct rpc_client_options){
        .message_bytes_max = 8u << 20,
        .header_bytes_max = 16u << 10,
        .keepalive_time_ms = 10000,
        .keepalive_timeout_ms = 5000,
        .reconnect_max_ms = 1000,
    };
}

enum status rpc_client_create(struct rpc_runtime *runtime, const struct rpc_client_options *options,
                              struct rpc_client **client_out)
{
    struct rpc_client *client = calloc(1, sizeof *client);
    if (!client)
        return STATUS_NO_MEMORY;
    client->runtime = runtime;
    if (options)
        client->options = *options;
    else
        rpc_client_options_init(&client->options);
    if (!client->options.now_ms)
        client->options.now_ms = clock_unix_ms;
    enum status status = channel_credentials_create(client->options.tls, &client->credentials);
    if (status != STATUS_OK) {
        free(client);
        return status;
    }
    pthread_mutex_init(&client->lock, NULL);
    pthread_cond_init(&client->changed, NULL);
    *client_out = client;
    return STATUS_OK;
}

bool rpc_client_has_key(const struct rpc_client *client)
{
    return client->options.key != NULL;
}

void rpc_client_destroy(struct rpc_client *client)
{
    if (!client)
        return;
    assert(!client->channels && !rpc_runtime_is_current(client->runtime));
    pthread_mutex_lock(&client->lock);
    rpc_client_cancel_calls(client);
    while (client->n_calls > 0)
        pthread_cond_wait(&client->changed, &client->lock);
    pthread_mutex_unlock(&client->lock);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->lock);
    channel_credentials_destroy(client->credentials);
    free(client);
}

static grpc_arg integer_argument(const char *key, uint32_t value)
{
    grpc_arg argument = {.type = GRPC_ARG_INTEGER, .key = (char *)key};
    argument.value.integer = value < INT_MAX ? (int)value : INT_MAX;
    return argument;
}

static grpc_channel *create_grpc_channel(const struct rpc_client *client, const char *address,
                                         uint32_t roles)
{
    const struct rpc_client_options *options = &client->options;
    grpc_arg arguments[] = {
        integer_argument(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, options->message_bytes_max),
        integer_argument(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, options->message_bytes_max),
        integer_argument(GRPC_ARG_MAX_METADATA_SIZE, options->header_bytes_max),
        integer_argument(GRPC_ARG_KEEPALIVE_TIME_MS, options->keepalive_time_ms),
        integer_argument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, options->keepalive_timeout_ms),
        integer_argument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
        integer_argument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0), /* as many as needed */
        integer_argument(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, RECONNECT_FIRST_MS),
        integer_argument(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, CONNECT_TIMEOUT_MS),
        integer_argument(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, options->reconnect_max_ms),
        integer_argument(GRPC_ARG_ENABLE_RETRIES, 0), /* whether to retry is the caller's choice */
        integer_argument(GRPC_ARG_ENABLE_HTTP_PROXY, 0),
        integer_argument(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1),
        integer_argument(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1),
        /* gRPC checks the size of a compressed message only before it inflates it, so compression
         * is not accepted. */
        integer_argument(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1),
        integer_argument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0),
    };
    grpc_channel_args channel_args = {sizeof arguments / sizeof *arguments, arguments};
    grpc_channel_credentials *credentials = channel_credentials_for(client->credentials, roles);
    if (!credentials)
        return NULL;
    grpc_channel *channel = grpc_channel_create(address, credentials, &channel_args);
    grpc_channel_credentials_release(credentials);
    return channel;
}

static struct rpc_life *life_create(void)
{
    struct rpc_life *life = calloc(1, sizeof *life);
    if (life)
        atomic_init(&life->n_holders, 1);
    return life;
}

static void channel_destroy(struct rpc_channel *channel)
{
    rpc_life_release(channel->life);
    if (channel->channel)
        grpc_channel_destroy(channel->channel);
    free(channel->address);
    free(channel);
}

static struct rpc_channel *channel_create(struct rpc_client *client, const char *address,
                                          uint32_t roles)
{
    struct rpc_channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    channel->client = client;
    channel->n_opens = 1;
    channel->roles = roles;
    channel->address = strdup(address);
    channel->life = life_create();
    channel->channel = create_grpc_channel(client, address, roles);
    if (!channel->address || !channel->life || !channel->channel) {
        channel_destroy(channel);
        return NULL;
    }
    return channel;
}

enum status rpc_channel_open(struct rpc_client *client, const char *address,
                             struct rpc_channel **channel_out)
{
    return rpc_channel_open_role(client, address, TLS_ROLES_ALL, channel_out);
}

enum status rpc_channel_open_role(struct rpc_client *client, const char *address, uint32_t roles,
                                  struct rpc_channel **channel_out)
{
    assert(roles != 0);
    pthread_mutex_lock(&client->lock);
    struct rpc_channel *channel = client->channels;
    while (channel && (channel->roles != roles || strcmp(channel->address, address) != 0))
        channel = channel->next;
    if (channel) {
        channel->n_opens++;
    } else {
        channel = channel_create(client, address, roles);
        if (channel) {
            channel->next = client->channels;
            client->channels = channel;
        }
    }
    pthread_mutex_unlock(&client->lock);
    if (!channel)
        return STATUS_NO_MEMORY;
    *channel_out = channel;
    return STATUS_OK;
}

void rpc_channel_close(struct rpc_channel *channel)
{
    if (!channel)
        return;
    struct rpc_client *client = channel->client;
    pthread_mutex_lock(&client->lock);
    assert(channel->n_opens > 0);
    bool is_last = --channel->n_opens == 0;
    if (is_last) {
        struct rpc_channel **place = &client->channels;
        while (*place != channel) {
            assert(*place);
            place = &(*place)->next;
        }
        *place = channel->next;
    }
    pthread_mutex_unlock(&client->lock);
    if (is_last)
        channel_destroy(channel);
}

uint64_t rpc_channel_life(const struct rpc_channel *channel)
{
    return atomic_load(&channel->life->number);
}

const char *rpc_channel_address(const struct rpc_channel *channel)
{
    return channel->address;
}
