#include "api/engine/engine_calls.h"

#include "base/clock.h"
#include "base/random.h"

#include <assert.h>
#include <string.h>

enum status engine_calls_init(struct engine_calls *calls, struct engine_place *place,
                              struct error *error)
{
    *calls = (struct engine_calls){.place = place};
    TRY(random_secret(&calls->key, sizeof calls->key, error));
    pthread_mutex_init(&calls->mutex, NULL);
    return STATUS_OK;
}

void engine_calls_finish(struct engine_calls *calls)
{
    for (uint32_t i = 0; i < ENGINE_CALL_LISTS; i++)
        assert(!calls->lists[i] && "the port has closed");
    if (calls->place)
        pthread_mutex_destroy(&calls->mutex);
    *calls = (struct engine_calls){0};
}

/* Of the calls with that id, and others. */
static struct engine_call **list_of(struct engine_calls *calls, const char *client_id)
{
    struct hash128 hash = hash128_of(&calls->key, client_id, strlen(client_id));
    return &calls->lists[hash.lo % ENGINE_CALL_LISTS];
}

static void leave(struct engine_call *call)
{
    struct engine_calls *calls = call->calls;
    pthread_mutex_lock(&calls->mutex);
    if (call->next)
        call->next->previous = call->previous;
    if (call->previous)
        call->previous->next = call->next;
    else
        *list_of(calls, call->client_id) = call->next;
    pthread_mutex_unlock(&calls->mutex);
}

/* It is found from now on, until it leaves. */
static void add(struct engine_calls *calls, struct engine_call *call)
{
    call->calls = calls;
    call->leave = leave;
    pthread_mutex_lock(&calls->mutex);
    struct engine_call **list = list_of(calls, call->client_id);
    call->next = *list;
    call->previous = NULL;
    if (call->next)
        call->next->previous = call;
    *list = call;
    pthread_mutex_unlock(&calls->mutex);
}

/* With a hold on it, and marked, so that it is not found again. NULL: there is none. */
static struct engine_call *find(struct engine_calls *calls, const char *client_id)
{
    struct engine_call *found = NULL;
    pthread_mutex_lock(&calls->mutex);
    for (struct engine_call *call = *list_of(calls, client_id); call && !found; call = call->next)
        if (!call->is_abort_asked && strcmp(call->client_id, client_id) == 0 &&
            rpc_door_call_try_share(&call->door))
            found = call;
    if (found)
        found->is_abort_asked = true;
    pthread_mutex_unlock(&calls->mutex);
    return found;
}

void engine_calls_abort(struct engine_calls *calls, const char *client_id)
{
    struct engine_call *call;
    if (!client_id[0]) /* calls without an id have this one */
        return;
    while ((call = find(calls, client_id))) {
        engine_call_abort(call);
        rpc_door_call_release(&call->door.base);
    }
}

void engine_calls_take(struct engine_calls *calls, struct rpc_call *rpc,
                       const struct engine_ask *ask, const struct engine_form *form,
                       enum status status, struct rpc_error *error)
{
    struct intake *intake = calls->place->intake;
    struct engine_call *call = engine_call_create(calls->place, rpc, ask, form);
    atomic_store(&calls->last_unix_ms, clock_unix_ms());
    if (!call) {
        rpc_call_fail_status(rpc, STATUS_NO_MEMORY, "%s", status_text(STATUS_NO_MEMORY));
        return;
    }
    add(calls, call);
    if (status == STATUS_OK)
        intake_generate(intake, &call->door.base, &ask->request);
    else
        intake_refuse(intake, &call->door.base, status, error);
    rpc_door_call_release(&call->door.base);
}
