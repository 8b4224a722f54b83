/*
 * api_exchange - one request to Kubernetes' API server, and its answer, over its own connection.
 *
 * The token of the service account is read for each request, and wiped when the request is sent.
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"
#include "discovery/k8s/api_answer.h"
#include "discovery/k8s/api_request.h"
#include "discovery/k8s/host_lookup.h"
#include "discovery/k8s/https_stream.h"
#include "discovery/k8s/k8s_target.h"
#include "process/ports/address.h"

#include <stdbool.h>
#include <stdint.h>

#define API_READ_BYTES 16384u

/* The server and the Service; all is borrowed. */
struct api_server {
    const char *folder; /* of the service account */
    const struct address *address;
    const struct k8s_target *target;
    struct host_lookup *lookup;
    int stop_fd; /* a wake that ends a wait */
};

/* One request and its answer. */
struct api_exchange {
    struct https_stream *stream;
    struct api_answer answer;
    char bytes[API_READ_BYTES];
};

/* NO_MEMORY with a sentence. begin sets all members. */
MUST_CHECK enum status api_exchange_create(struct api_exchange **exchange_out, struct error *error);
/* Sends the request; the caller sets its fields, except those from the server's. Call end, also after a failure. */
MUST_CHECK enum status api_exchange_begin(const struct api_server *server,
                                          struct api_exchange *exchange,
                                          struct api_request *request, uint64_t until_ns,
                                          struct error *error);
/* Frees it, too. */
void api_exchange_end(struct api_exchange *exchange);

/* PEER_LOST: the connection ended before the answer. */
MUST_CHECK enum status api_exchange_read(struct api_exchange *exchange, uint64_t until_ns,
                                         struct error *error);
/* Reads until the whole answer has arrived, or its head with a success code. */
MUST_CHECK enum status api_exchange_await(struct api_exchange *exchange, bool is_head_enough,
                                          uint64_t until_ns, struct error *error);
