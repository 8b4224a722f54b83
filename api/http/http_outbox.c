#include "api/http/http_outbox.h"

#include "base/wake.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

struct http_outbox {
    struct http_limits limits;
    const struct http_error_form *error_form;
    const struct http_doorkeeper *doorkeeper;
    atomic_uint n_holders;
    int wake;
    atomic_bool is_draining;
    atomic_uint_fast64_t unsent_bytes;
    atomic_uint_fast64_t bodies_bytes;
    pthread_mutex_t lock; /* what follows */
    struct http_exchange *first;
    struct http_exchange **end;
};

enum status http_outbox_create(const struct http_limits *limits,
                               const struct http_error_form *error_form,
                               const struct http_doorkeeper *doorkeeper,
                               struct http_outbox **outbox_out)
{
    assert(limits->requests_max > 0);
    struct http_outbox *outbox = calloc(1, sizeof *outbox);
    if (!outbox)
        return STATUS_NO_MEMORY;
    outbox->limits = *limits;
    outbox->error_form = error_form;
    outbox->doorkeeper = doorkeeper;
    outbox->end = &outbox->first;
    atomic_init(&outbox->n_holders, 1);
    pthread_mutex_init(&outbox->lock, NULL);
    outbox->wake = wake_open();
    if (outbox->wake < 0) {
        http_outbox_release(outbox);
        return STATUS_NO_MEMORY;
    }
    *outbox_out = outbox;
    return STATUS_OK;
}

struct http_outbox *http_outbox_share(struct http_outbox *outbox)
{
    atomic_fetch_add(&outbox->n_holders, 1);
    return outbox;
}

void http_outbox_release(struct http_outbox *outbox)
{
    if (!outbox || atomic_fetch_sub(&outbox->n_holders, 1) > 1)
        return;
    assert(!outbox->first && "each exchange in it holds it");
    assert(atomic_load(&outbox->unsent_bytes) == 0 && atomic_load(&outbox->bodies_bytes) == 0);
    if (outbox->wake >= 0)
        close(outbox->wake);
    pthread_mutex_destroy(&outbox->lock);
    free(outbox);
}

int http_outbox_wake(const struct http_outbox *outbox)
{
    return outbox->wake;
}

const struct http_limits *http_outbox_limits(const struct http_outbox *outbox)
{
    return &outbox->limits;
}

const struct http_error_form *http_outbox_error_form(const struct http_outbox *outbox)
{
    return outbox->error_form;
}

const struct http_doorkeeper *http_outbox_doorkeeper(const struct http_outbox *outbox)
{
    return outbox->doorkeeper;
}

void http_outbox_put(struct http_outbox *outbox, struct http_exchange *exchange,
                     struct http_exchange **next)
{
    pthread_mutex_lock(&outbox->lock);
    bool was_empty = !outbox->first;
    *next = NULL;
    *outbox->end = exchange;
    outbox->end = next;
    pthread_mutex_unlock(&outbox->lock);
    if (was_empty)
        wake_send(outbox->wake);
}

struct http_exchange *http_outbox_take(struct http_outbox *outbox)
{
    pthread_mutex_lock(&outbox->lock);
    struct http_exchange *first = outbox->first;
    outbox->first = NULL;
    outbox->end = &outbox->first;
    pthread_mutex_unlock(&outbox->lock);
    return first;
}

void http_outbox_set_draining(struct http_outbox *outbox)
{
    atomic_store(&outbox->is_draining, true);
}

bool http_outbox_is_draining(const struct http_outbox *outbox)
{
    return atomic_load(&outbox->is_draining);
}

void http_outbox_add_unsent(struct http_outbox *outbox, size_t n)
{
    atomic_fetch_add(&outbox->unsent_bytes, n);
}

void http_outbox_drop_unsent(struct http_outbox *outbox, size_t n)
{
    uint64_t before = atomic_fetch_sub(&outbox->unsent_bytes, n);
    assert(before >= n);
    (void)before;
}

static uint64_t unless_full(const struct http_outbox *outbox, uint64_t limit)
{
    const struct http_limits *limits = &outbox->limits;
    if (atomic_load(&outbox->unsent_bytes) <= limits->all_unsent_bytes_max)
        return limit;
    uint64_t share = limits->all_unsent_bytes_max / limits->requests_max;
    return share < limit ? share : limit;
}

uint64_t http_outbox_unsent_max(const struct http_outbox *outbox)
{
    return unless_full(outbox, outbox->limits.unsent_bytes_max);
}

uint64_t http_outbox_reply_max(const struct http_outbox *outbox)
{
    return unless_full(outbox, outbox->limits.reply_bytes_max);
}

bool http_outbox_add_body(struct http_outbox *outbox, uint64_t n)
{
    uint64_t before = atomic_fetch_add(&outbox->bodies_bytes, n);
    if (before + n <= outbox->limits.bodies_bytes_max)
        return true;
    atomic_fetch_sub(&outbox->bodies_bytes, n);
    return false;
}

void http_outbox_drop_body(struct http_outbox *outbox, uint64_t n)
{
    uint64_t before = atomic_fetch_sub(&outbox->bodies_bytes, n);
    assert(before >= n);
    (void)before;
}

uint64_t http_outbox_body_bytes(const struct http_outbox *outbox)
{
    return atomic_load(&outbox->bodies_bytes);
}
