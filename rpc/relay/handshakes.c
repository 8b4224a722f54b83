#include "rpc/relay/handshakes.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/wake.h"
#include "rpc/relay/budget.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define BURST_S     1
#define STACK_BYTES (512u << 10)

enum handshake_place { WITH_OWNER, WITH_THREAD, COMPUTED };

struct handshake {
    struct handshake *next;
    struct tls_link *link;
    void *owner; /* NULL: the owner has forgotten it */
    enum handshake_place place;
    enum tls_progress progress;
    bool has_begun;
};

struct handshake_list {
    struct handshake *first;
    struct handshake **end;
};

struct handshakes {
    pthread_t thread;
    int wake;
    uint32_t per_s;
    struct budget budget; /* the thread's */
    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    struct handshake_list beginning;
    struct handshake_list going;
    struct handshake_list computed;
    bool is_stopping;
};

static void put(struct handshake_list *list, struct handshake *handshake)
{
    handshake->next = NULL;
    *list->end = handshake;
    list->end = &handshake->next;
}

static struct handshake *pop(struct handshake_list *list)
{
    struct handshake *first = list->first;
    if (first) {
        list->first = first->next;
        if (!list->first)
            list->end = &list->first;
    }
    return first;
}

static void handshake_free(struct handshake *handshake)
{
    tls_link_destroy(handshake->link);
    free(handshake);
}

/* Waits for a step or for budget, with the lock held. */
static void wait_for_work(struct handshakes *handshakes)
{
    uint64_t until_ns = handshakes->beginning.first
                            ? clock_now_ns() + NS_PER_S / handshakes->per_s + 1
                            : DEADLINE_NONE;
    (void)cond_wait_until(&handshakes->changed, &handshakes->lock, until_ns);
}

/* The next handshake to compute; NULL: none now. Frees forgotten ones. */
static struct handshake *choose(struct handshakes *handshakes)
{
    const struct budget_rate rate = {handshakes->per_s, BURST_S, 0};
    struct handshake *handshake;
    while ((handshake = pop(&handshakes->going)) && !handshake->owner)
        handshake_free(handshake);
    if (handshake)
        return handshake;
    while (handshakes->beginning.first && !handshakes->beginning.first->owner)
        handshake_free(pop(&handshakes->beginning));
    uint64_t now_ns = clock_now_ns();
    if (!handshakes->beginning.first || budget_level(&handshakes->budget, &rate, now_ns) < 1)
        return NULL;
    (void)budget_take(&handshakes->budget, &rate, 1, now_ns);
    handshake = pop(&handshakes->beginning);
    handshake->has_begun = true;
    return handshake;
}

/* Called with the lock held; releases it while it computes. */
static void compute(struct handshakes *handshakes, struct handshake *handshake)
{
    assert(handshake->place == WITH_THREAD);
    pthread_mutex_unlock(&handshakes->lock);
    enum tls_progress progress = tls_link_handshake(handshake->link);
    pthread_mutex_lock(&handshakes->lock);
    handshake->progress = progress;
    if (!handshake->owner) {
        handshake_free(handshake);
        return;
    }
    handshake->place = COMPUTED;
    put(&handshakes->computed, handshake);
    wake_send(handshakes->wake);
}

static void *run(void *arg)
{
    struct handshakes *handshakes = arg;
    pthread_setname_np(pthread_self(), "rpc-handshakes");
    pthread_mutex_lock(&handshakes->lock);
    while (!handshakes->is_stopping) {
        struct handshake *handshake = choose(handshakes);
        if (handshake)
            compute(handshakes, handshake);
        else
            wait_for_work(handshakes);
    }
    pthread_mutex_unlock(&handshakes->lock);
    return NULL;
}

static void destroy(struct handshakes *handshakes)
{
    struct handshake *handshake;
    while ((handshake = pop(&handshakes->beginning)) || (handshake = pop(&handshakes->going)) ||
           (handshake = pop(&handshakes->computed)))
        handshake_free(handshake);
    pthread_cond_destroy(&handshakes->changed);
    pthread_mutex_destroy(&handshakes->lock);
    free(handshakes);
}

enum status handshakes_start(uint32_t per_s, int wake, struct error *error,
                             struct handshakes **handshakes_out)
{
    assert(per_s > 0 && wake >= 0);
    struct handshakes *handshakes = calloc(1, sizeof *handshakes);
    if (!handshakes)
        return STATUS_NO_MEMORY;
    handshakes->wake = wake;
    handshakes->per_s = per_s;
    handshakes->beginning.end = &handshakes->beginning.first;
    handshakes->going.end = &handshakes->going.first;
    handshakes->computed.end = &handshakes->computed.first;
    pthread_mutex_init(&handshakes->lock, NULL);
    cond_init(&handshakes->changed);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = pthread_create(&handshakes->thread, &attributes, run, handshakes);
    pthread_attr_destroy(&attributes);
    if (failed) {
        destroy(handshakes);
        return error_set(error, STATUS_NO_THREAD, "no thread for TLS handshakes: %s",
                         strerror(failed));
    }
    *handshakes_out = handshakes;
    return STATUS_OK;
}

void handshakes_stop(struct handshakes *handshakes)
{
    if (!handshakes)
        return;
    pthread_mutex_lock(&handshakes->lock);
    handshakes->is_stopping = true;
    pthread_cond_broadcast(&handshakes->changed);
    pthread_mutex_unlock(&handshakes->lock);
    pthread_join(handshakes->thread, NULL);
    destroy(handshakes);
}

enum status handshake_create(struct tls_link *link, void *owner, struct handshake **handshake_out)
{
    assert(link && owner);
    struct handshake *handshake = calloc(1, sizeof *handshake);
    if (!handshake) {
        tls_link_destroy(link);
        return STATUS_NO_MEMORY;
    }
    *handshake = (struct handshake){.link = link, .owner = owner, .place = WITH_OWNER};
    *handshake_out = handshake;
    return STATUS_OK;
}

struct tls_link *handshake_link(struct handshake *handshake)
{
    return handshake->link;
}

void handshakes_step(struct handshakes *handshakes, struct handshake *handshake)
{
    pthread_mutex_lock(&handshakes->lock);
    assert(handshake->place == WITH_OWNER);
    handshake->place = WITH_THREAD;
    put(handshake->has_begun ? &handshakes->going : &handshakes->beginning, handshake);
    pthread_cond_signal(&handshakes->changed);
    pthread_mutex_unlock(&handshakes->lock);
}

bool handshakes_take(struct handshakes *handshakes, void **owner_out,
                     enum tls_progress *progress_out)
{
    pthread_mutex_lock(&handshakes->lock);
    struct handshake *handshake;
    while ((handshake = pop(&handshakes->computed)) && !handshake->owner)
        handshake_free(handshake);
    if (handshake) {
        assert(handshake->place == COMPUTED);
        handshake->place = WITH_OWNER;
        *owner_out = handshake->owner;
        *progress_out = handshake->progress;
    }
    pthread_mutex_unlock(&handshakes->lock);
    return handshake != NULL;
}

struct tls_link *handshake_finish(struct handshake *handshake)
{
    assert(handshake->place == WITH_OWNER);
    struct tls_link *link = handshake->link;
    free(handshake);
    return link;
}

void handshakes_forget(struct handshakes *handshakes, struct handshake *handshake)
{
    pthread_mutex_lock(&handshakes->lock);
    assert(handshake->owner); /* only once */
    handshake->owner = NULL;
    if (handshake->place == WITH_OWNER)
        handshake_free(handshake);
    pthread_mutex_unlock(&handshakes->lock);
}
