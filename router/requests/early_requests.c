#include "router/requests/early_requests.h"

#include "base/clock.h"
#include "router/placement/waiting_room.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define COST_MAX (1u << 30) /* of a turn */

struct early_request {
    struct arrival arrival;                       /* without its message */
    const ProtobufCMessageDescriptor *descriptor; /* of what is packed */
    size_t bytes;
    uint8_t packed[];
};

struct early_requests {
    struct early_requests_options options;
    pthread_mutex_t mutex;        /* guards the members below */
    struct early_request **slots; /* [requests_max] NULL: free */
    struct waiting_room room;     /* its items are the slots' indices */
    uint32_t n;                   /* including those in on_end */
    uint64_t bytes;               /* theirs */
    bool is_draining;
    uint64_t known_ns; /* of the first step that knew anything; 0: none yet */
};

enum status early_requests_create(const struct early_requests_options *options,
                                  struct early_requests **requests_out)
{
    uint32_t n_slots = options->requests_max > 0 ? options->requests_max : 1;
    struct early_requests *requests = calloc(1, sizeof *requests);
    if (!requests)
        return STATUS_NO_MEMORY;
    requests->options = *options;
    pthread_mutex_init(&requests->mutex, NULL);
    requests->slots = calloc(n_slots, sizeof(struct early_request *));
    enum status status = waiting_room_init(&requests->room, n_slots);
    if (!requests->slots)
        status = STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        early_requests_destroy(requests);
        return status;
    }
    *requests_out = requests;
    return STATUS_OK;
}

void early_requests_destroy(struct early_requests *requests)
{
    if (!requests)
        return;
    assert(requests->n == 0 && requests->bytes == 0);
    pthread_mutex_destroy(&requests->mutex);
    waiting_room_finish(&requests->room);
    free(requests->slots);
    free(requests);
}

uint32_t early_requests_count(struct early_requests *requests)
{
    pthread_mutex_lock(&requests->mutex);
    uint32_t n = requests->n;
    pthread_mutex_unlock(&requests->mutex);
    return n;
}

/* ---- ending ---- */

/* It stops waiting, but still counts until it is discounted. Locked. */
static struct early_request *take_out(struct early_requests *requests, uint32_t item)
{
    struct early_request *request = requests->slots[item];
    assert(request && requests->n > 0);
    waiting_room_leave(&requests->room, item, true, 0);
    requests->slots[item] = NULL;
    return request;
}

/* The same, and its tenant had a turn. Locked. */
static struct early_request *take_turn(struct early_requests *requests, uint32_t item)
{
    struct early_request *request = requests->slots[item];
    uint32_t cost = request->bytes < COST_MAX ? (uint32_t)request->bytes + 1 : COST_MAX;
    waiting_room_start(&requests->room, item, cost);
    waiting_room_prompt_served(&requests->room, item, cost);
    waiting_room_leave(&requests->room, item, false, 0);
    requests->slots[item] = NULL;
    return request;
}

/* Locked. */
static void discount(struct early_requests *requests, const struct early_request *request)
{
    assert(requests->n > 0 && requests->bytes >= request->bytes);
    requests->n--;
    requests->bytes -= request->bytes;
}

static void end(const struct early_requests *requests, struct early_request *request,
                enum status status, early_request_end on_end, void *arg)
{
    char sentence[96] = "";
    ProtobufCMessage *message = protobuf_c_message_unpack(request->descriptor, NULL, request->bytes,
                                                          request->packed);
    request->arrival.message = message;
    if (!message && status == STATUS_OK)
        status = STATUS_NO_MEMORY;
    if (status == STATUS_NO_GENERATION_WORKER)
        snprintf(sentence, sizeof sentence, "%s: waited %llu ms for one", status_text(status),
                 requests->options.wait_limit_ns / NS_PER_MS);
    if (status == STATUS_LOADING)
        snprintf(sentence, sizeof sentence, "the tokenizer is loading: waited %llu ms",
                 requests->options.wait_limit_ns / NS_PER_MS);
    if (status == STATUS_QUEUE_FULL)
        snprintf(sentence, sizeof sentence, "%s", WAITING_ROOM_GAVE_WAY);
    on_end(arg, &request->arrival, status, sentence);
    protobuf_c_message_free_unpacked(message, NULL);
    request->arrival.call->ops->release(request->arrival.call);
}

/* Ends a removed request; it counts until on_end returns, so that no later request overtakes it. */
static void finish(struct early_requests *requests, struct early_request *request,
                   enum status status, early_request_end on_end, void *arg)
{
    end(requests, request, status, on_end, arg);
    pthread_mutex_lock(&requests->mutex);
    discount(requests, request);
    pthread_mutex_unlock(&requests->mutex);
    free(request);
}

/* ---- arriving ---- */

static bool fits(const struct early_requests *requests, uint32_t n, uint64_t n_bytes, size_t bytes)
{
    const struct early_requests_options *options = &requests->options;
    return n < options->requests_max && (n == 0 || n_bytes + bytes <= options->bytes_max);
}

/* Which request to end for one of that standing; none if that would not be enough. */
static enum status make_way(struct early_requests *requests, size_t bytes,
                            const struct standing *standing, struct early_request **gone_out)
{
    uint32_t item = waiting_room_who_gives_way(&requests->room, standing, 1);
    if (item == WAITING_NONE ||
        !fits(requests, requests->n - 1, requests->bytes - requests->slots[item]->bytes, bytes))
        return STATUS_QUEUE_FULL;
    *gone_out = take_out(requests, item);
    discount(requests, *gone_out);
    return STATUS_OK;
}

/* gone_out: the request that makes room, which no longer counts; not set if there is none. */
static enum status find_room(struct early_requests *requests, size_t bytes,
                             const struct standing *standing, struct early_request **gone_out)
{
    if (requests->options.requests_max == 0)
        return STATUS_NO_GENERATION_WORKER;
    if (requests->is_draining)
        return STATUS_DRAINING;
    if (fits(requests, requests->n, requests->bytes, bytes))
        return STATUS_OK;
    return make_way(requests, bytes, standing, gone_out);
}

static void add(struct early_requests *requests, struct early_request *request,
                const struct standing *standing)
{
    uint32_t slot = 0;
    while (requests->slots[slot])
        slot++;
    assert(slot < requests->options.requests_max && requests->n < requests->options.requests_max);
    requests->slots[slot] = request;
    requests->n++;
    requests->bytes += request->bytes;
    waiting_room_join(&requests->room, slot, standing, request->arrival.arrived_ns);
}

/* NULL: no memory. */
static struct early_request *copy(const struct arrival *arrival)
{
    size_t bytes = protobuf_c_message_get_packed_size(arrival->message);
    struct early_request *request = malloc(sizeof *request + bytes);
    if (!request)
        return NULL;
    request->arrival = *arrival;
    request->arrival.message = NULL;
    request->descriptor = arrival->message->descriptor;
    request->bytes = protobuf_c_message_pack(arrival->message, request->packed);
    assert(request->bytes == bytes && "as long as was measured");
    return request;
}

enum status early_requests_push(struct early_requests *requests, const struct arrival *arrival,
                                const struct standing *standing, early_request_end on_end,
                                void *arg)
{
    struct early_request *gone = NULL;
    struct early_request *request = copy(arrival);
    if (!request)
        return STATUS_NO_MEMORY;
    pthread_mutex_lock(&requests->mutex);
    enum status status = find_room(requests, request->bytes, standing, &gone);
    if (status == STATUS_OK) {
        arrival->call->ops->share(arrival->call);
        add(requests, request, standing);
    }
    pthread_mutex_unlock(&requests->mutex);
    if (gone)
        end(requests, gone, STATUS_QUEUE_FULL, on_end, arg);
    free(gone);
    if (status != STATUS_OK)
        free(request);
    return status;
}

/* ---- looking ---- */

/* Whether its wait is over without success. */
static bool is_over(const struct early_requests *requests, const struct early_request *request,
                    uint64_t now_ns, enum early_known known, enum status *status_out)
{
    struct door_call *call = request->arrival.call;
    uint64_t since_ns = request->arrival.arrived_ns;
    if (known > EARLY_NOTHING && since_ns < requests->known_ns)
        since_ns = requests->known_ns;
    if (call->ops->is_over(call))
        *status_out = call->ops->end_status(call);
    else if (requests->is_draining)
        *status_out = STATUS_DRAINING;
    else if (known < request->arrival.needs && now_ns >= since_ns + requests->options.wait_limit_ns)
        *status_out = known == EARLY_NOTHING ? STATUS_LOADING : STATUS_NO_GENERATION_WORKER;
    else
        return false;
    return true;
}

/* From that slot on, which it moves, the first whose wait is over, with why; NULL: none. */
static struct early_request *take_over(struct early_requests *requests, uint32_t *slot,
                                       uint64_t now_ns, enum early_known known,
                                       enum status *status_out)
{
    struct early_request *request = NULL;
    pthread_mutex_lock(&requests->mutex);
    for (; !request && *slot < requests->options.requests_max; ++*slot)
        if (requests->slots[*slot] &&
            is_over(requests, requests->slots[*slot], now_ns, known, status_out))
            request = take_out(requests, *slot);
    pthread_mutex_unlock(&requests->mutex);
    return request;
}

/* The next request that can be checked; NULL: none. */
static struct early_request *take_next(struct early_requests *requests, enum early_known known)
{
    struct early_request *request = NULL;
    pthread_mutex_lock(&requests->mutex);
    uint32_t item = waiting_room_first(&requests->room);
    while (item != WAITING_NONE && known < requests->slots[item]->arrival.needs)
        item = waiting_room_behind(&requests->room, item);
    if (item != WAITING_NONE)
        request = take_turn(requests, item);
    pthread_mutex_unlock(&requests->mutex);
    return request;
}

void early_requests_step(struct early_requests *requests, uint64_t now_ns, enum early_known known,
                         early_request_end on_end, void *arg)
{
    struct early_request *request;
    enum status status = STATUS_OK;
    uint32_t slot = 0;
    if (known > EARLY_NOTHING && requests->known_ns == 0)
        requests->known_ns = now_ns;
    while ((request = take_over(requests, &slot, now_ns, known, &status)))
        finish(requests, request, status, on_end, arg);
    while ((request = take_next(requests, known)))
        finish(requests, request, STATUS_OK, on_end, arg);
}

void early_requests_drain(struct early_requests *requests, early_request_end on_end, void *arg)
{
    pthread_mutex_lock(&requests->mutex);
    requests->is_draining = true;
    pthread_mutex_unlock(&requests->mutex);
    early_requests_step(requests, 0, EARLY_NOTHING, on_end, arg);
}
