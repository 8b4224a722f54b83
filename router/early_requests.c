#include "router/early_requests.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct early_request {
    struct early_request *next;
    struct arrival arrival;                       /* without its message */
    const ProtobufCMessageDescriptor *descriptor; /* of what is packed */
    size_t bytes;
    uint8_t packed[];
};

struct early_requests {
    struct early_requests_options options;
    pthread_mutex_t mutex; /* what follows */
    struct early_request *first;
    struct early_request **end;
    uint32_t n; /* with the one that on_end has */
    uint64_t bytes;
    bool is_draining;
    uint64_t known_ns; /* of the first step that knew anything; 0: none yet */
};

enum status early_requests_create(const struct early_requests_options *options,
                                  struct early_requests **requests_out)
{
    struct early_requests *requests = calloc(1, sizeof *requests);
    if (!requests)
        return STATUS_NO_MEMORY;
    requests->options = *options;
    requests->end = &requests->first;
    pthread_mutex_init(&requests->mutex, NULL);
    *requests_out = requests;
    return STATUS_OK;
}

void early_requests_destroy(struct early_requests *requests)
{
    if (!requests)
        return;
    assert(!requests->first && requests->n == 0 && requests->bytes == 0);
    pthread_mutex_destroy(&requests->mutex);
    free(requests);
}

uint32_t early_requests_count(struct early_requests *requests)
{
    pthread_mutex_lock(&requests->mutex);
    uint32_t n = requests->n;
    pthread_mutex_unlock(&requests->mutex);
    return n;
}

/* ---- arriving ---- */

static enum status find_room(const struct early_requests *requests, size_t bytes)
{
    const struct early_requests_options *options = &requests->options;
    if (options->requests_max == 0)
        return STATUS_NO_GENERATION_WORKER;
    if (requests->is_draining)
        return STATUS_DRAINING;
    if (requests->n == options->requests_max ||
        (requests->n > 0 && requests->bytes + bytes > options->bytes_max))
        return STATUS_QUEUE_FULL;
    return STATUS_OK;
}

static enum status add(struct early_requests *requests, const struct arrival *arrival, size_t bytes)
{
    struct early_request *request = malloc(sizeof *request + bytes);
    if (!request)
        return STATUS_NO_MEMORY;
    assert(!*requests->end && requests->n < requests->options.requests_max);
    request->next = NULL;
    request->arrival = *arrival;
    request->arrival.call = rpc_call_share(arrival->call);
    request->arrival.message = NULL;
    request->descriptor = arrival->message->descriptor;
    request->bytes = protobuf_c_message_pack(arrival->message, request->packed);
    assert(request->bytes == bytes && "as long as was measured");
    *requests->end = request;
    requests->end = &request->next;
    requests->n++;
    requests->bytes += bytes;
    return STATUS_OK;
}

enum status early_requests_push(struct early_requests *requests, const struct arrival *arrival)
{
    size_t bytes = protobuf_c_message_get_packed_size(arrival->message);
    pthread_mutex_lock(&requests->mutex);
    enum status status = find_room(requests, bytes);
    if (status == STATUS_OK)
        status = add(requests, arrival, bytes);
    pthread_mutex_unlock(&requests->mutex);
    return status;
}

/* ---- ending ---- */

static bool is_over(const struct early_requests *requests, const struct early_request *request,
                    uint64_t now_ns, enum early_known known, enum status *status_out)
{
    struct rpc_call *call = request->arrival.call;
    uint64_t since_ns = request->arrival.arrived_ns;
    if (known > EARLY_NOTHING && since_ns < requests->known_ns)
        since_ns = requests->known_ns;
    uint64_t until_ns = since_ns + requests->options.wait_limit_ns;
    if (rpc_call_is_over(call))
        *status_out = rpc_call_end_status(call);
    else if (requests->is_draining)
        *status_out = STATUS_DRAINING;
    else if (known >= arrival_needs(&request->arrival))
        *status_out = STATUS_OK;
    else if (now_ns >= until_ns)
        *status_out = known == EARLY_NOTHING ? STATUS_LOADING : STATUS_NO_GENERATION_WORKER;
    else
        return false;
    return true;
}

/* The first whose wait is over, with why; NULL: none. */
static struct early_request *remove_next(struct early_requests *requests, uint64_t now_ns,
                                         enum early_known known, enum status *status_out)
{
    pthread_mutex_lock(&requests->mutex);
    struct early_request **at = &requests->first;
    while (*at && !is_over(requests, *at, now_ns, known, status_out))
        at = &(*at)->next;
    struct early_request *request = *at;
    if (request) {
        assert(requests->n > 0);
        *at = request->next;
        if (!*at)
            requests->end = at;
    }
    pthread_mutex_unlock(&requests->mutex);
    return request;
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
    on_end(arg, &request->arrival, status, sentence);
    protobuf_c_message_free_unpacked(message, NULL);
    rpc_call_release(request->arrival.call);
}

void early_requests_step(struct early_requests *requests, uint64_t now_ns, enum early_known known,
                         early_request_end on_end, void *arg)
{
    struct early_request *request;
    enum status status = STATUS_OK;
    if (known > EARLY_NOTHING && requests->known_ns == 0)
        requests->known_ns = now_ns;
    while ((request = remove_next(requests, now_ns, known, &status))) {
        end(requests, request, status, on_end, arg);
        pthread_mutex_lock(&requests->mutex);
        assert(requests->n > 0 && requests->bytes >= request->bytes &&
               "counted while on_end had it");
        requests->n--;
        requests->bytes -= request->bytes;
        pthread_mutex_unlock(&requests->mutex);
        free(request);
    }
}

void early_requests_drain(struct early_requests *requests, early_request_end on_end, void *arg)
{
    pthread_mutex_lock(&requests->mutex);
    requests->is_draining = true;
    pthread_mutex_unlock(&requests->mutex);
    early_requests_step(requests, 0, EARLY_NOTHING, on_end, arg);
}
