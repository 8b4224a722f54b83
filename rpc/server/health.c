/* health - see health.h: Check and Watch. */
#include "rpc/server/health.h"

#include "grpc/health/v1/health.pb-c.h"
#include "rpc/server/call.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX    96 /* with the NUL */
#define REQUEST_BYTES_MAX 1024

#define SERVING         GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
#define NOT_SERVING     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
#define SERVICE_UNKNOWN GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN

typedef Grpc__Health__V1__HealthCheckResponse__ServingStatus serving_status;

struct named_service {
    char name[NAME_BYTES_MAX];
    serving_status status;
};

/* One Watch stream, from its request to the end of the call. */
struct watch {
    struct rpc_health *health;
    struct rpc_call *call;
    char name[NAME_BYTES_MAX];
    serving_status last_sent; /* the last status that was queued in the call */
    struct watch *next;
    struct watch **place; /* the pointer to this watch in its list */
};

struct rpc_health {
    pthread_mutex_t lock;
    struct named_service services[RPC_HEALTH_SERVICES_MAX];
    size_t n_services;
    bool is_draining;
    struct watch *watches;
};

enum status rpc_health_create(struct rpc_health **health_out)
{
    struct rpc_health *health = calloc(1, sizeof *health);
    if (!health)
        return STATUS_NO_MEMORY;
    pthread_mutex_init(&health->lock, NULL);
    *health_out = health;
    return STATUS_OK;
}

void rpc_health_destroy(struct rpc_health *health)
{
    if (!health)
        return;
    assert(!health->watches);
    pthread_mutex_destroy(&health->lock);
    free(health);
}

static struct named_service *find(struct rpc_health *health, const char *name)
{
    for (size_t i = 0; i < health->n_services; i++)
        if (strcmp(health->services[i].name, name) == 0)
            return &health->services[i];
    return NULL;
}

static serving_status status_of(struct rpc_health *health, const char *name)
{
    const struct named_service *service = find(health, name);
    return service ? service->status : SERVICE_UNKNOWN;
}

/* The caller holds the lock. After a failed send nothing is to do: the call has ended. */
static void tell(struct watch *watch, serving_status status)
{
    if (watch->last_sent == status)
        return;
    watch->last_sent = status;
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = status;
    (void)!rpc_call_send(watch->call, &response.base);
}

static void tell_all(struct rpc_health *health)
{
    for (struct watch *watch = health->watches; watch; watch = watch->next)
        tell(watch, status_of(health, watch->name));
}

void rpc_health_set(struct rpc_health *health, const char *service, bool is_serving)
{
    assert(strlen(service) < NAME_BYTES_MAX);
    pthread_mutex_lock(&health->lock);
    if (!health->is_draining) {
        struct named_service *named = find(health, service);
        if (!named) {
            assert(health->n_services < RPC_HEALTH_SERVICES_MAX);
            named = &health->services[health->n_services++];
            snprintf(named->name, sizeof named->name, "%s", service);
        }
        named->status = is_serving ? SERVING : NOT_SERVING;
        tell_all(health);
    }
    pthread_mutex_unlock(&health->lock);
}

void rpc_health_drain(struct rpc_health *health)
{
    pthread_mutex_lock(&health->lock);
    health->is_draining = true;
    for (size_t i = 0; i < health->n_services; i++)
        health->services[i].status = NOT_SERVING;
    tell_all(health);
    pthread_mutex_unlock(&health->lock);
}

static void check(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct rpc_health *health = service;
    const Grpc__Health__V1__HealthCheckRequest
        *request = (const Grpc__Health__V1__HealthCheckRequest *)message;
    pthread_mutex_lock(&health->lock);
    serving_status status = status_of(health, request->service);
    pthread_mutex_unlock(&health->lock);

    if (status == SERVICE_UNKNOWN) {
        struct rpc_error error;
        rpc_error_set(&error, STATUS_NOT_FOUND, "service", request->service, "no service \"%s\"",
                      request->service);
        rpc_call_fail(call, &error);
        return;
    }
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = status;
    rpc_call_reply(call, &response.base);
}

static void on_watch_end(void *arg, enum status why)
{
    (void)why;
    struct watch *watch = arg;
    pthread_mutex_lock(&watch->health->lock);
    *watch->place = watch->next;
    if (watch->next)
        watch->next->place = watch->place;
    pthread_mutex_unlock(&watch->health->lock);
    rpc_call_release(watch->call);
    free(watch);
}

static void watch_service(void *service, struct rpc_call *call, const ProtobufCMessage *message)
{
    struct rpc_health *health = service;
    const Grpc__Health__V1__HealthCheckRequest
        *request = (const Grpc__Health__V1__HealthCheckRequest *)message;
    if (strlen(request->service) >= NAME_BYTES_MAX) {
        struct rpc_error error;
        rpc_error_set(&error, STATUS_INVALID_ARGUMENT, "service", NULL, "service: at most %d bytes",
                      NAME_BYTES_MAX - 1);
        rpc_call_fail(call, &error);
        return;
    }
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch) {
        rpc_call_fail_status(call, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
        return;
    }
    watch->health = health;
    watch->call = rpc_call_share(call);
    snprintf(watch->name, sizeof watch->name, "%s", request->service);

    pthread_mutex_lock(&health->lock);
    watch->next = health->watches;
    watch->place = &health->watches;
    if (watch->next)
        watch->next->place = &watch->next;
    health->watches = watch;
    tell(watch, status_of(health, watch->name));
    pthread_mutex_unlock(&health->lock);
    rpc_call_on_end(call, on_watch_end, watch);
}

/* Constant tables: the descriptors are addresses, with which C can initialise statics. */
static const struct rpc_method METHODS[] = {
    {
        .path = "/grpc.health.v1.Health/Check",
        .kind = RPC_UNARY,
        .request = &grpc__health__v1__health_check_request__descriptor,
        .response = &grpc__health__v1__health_check_response__descriptor,
        .request_bytes_max = REQUEST_BYTES_MAX,
        .while_draining = true,
        .handler = check,
    },
    {
        .path = "/grpc.health.v1.Health/Watch",
        .kind = RPC_SERVER_STREAM,
        .request = &grpc__health__v1__health_check_request__descriptor,
        .response = &grpc__health__v1__health_check_response__descriptor,
        .request_bytes_max = REQUEST_BYTES_MAX,
        .calls_max = RPC_HEALTH_WATCHES_MAX,
        .idles = true,
        .handler = watch_service,
    },
};

struct rpc_service rpc_health_service(struct rpc_health *health)
{
    return (struct rpc_service){
        .name = "grpc.health.v1.Health",
        .methods = METHODS,
        .n_methods = sizeof METHODS / sizeof *METHODS,
        .arg = health,
    };
}
