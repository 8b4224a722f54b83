#include "discovery/name_lookup.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/log/log.h"
#include "discovery/name_set.h"
#include "discovery/reminder.h"

#include <assert.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define EMPTY_AFTER_NS (5 * NS_PER_S)    /* of answers that there is no such name */
#define PAUSE_NS       (300 * NS_PER_MS) /* between two lookups, at least */
#define STOP_WAIT_NS   (50 * NS_PER_MS)  /* for a running lookup; there may be many */

/* Held by its creator and by its thread; the last one frees it. */
struct name_lookup {
    struct name_lookup_options options;
    struct address address;
    pthread_mutex_t mutex; /* of what follows, and held in on_change */
    pthread_cond_t changed;
    bool is_stopping, is_hurried, has_ended;
    uint32_t n_holders;
    pthread_t thread;
    /* The thread's own. */
    struct name_set name;
    struct address_set found;
    struct reminder reminder;
};

static void release(struct name_lookup *lookup)
{
    pthread_mutex_lock(&lookup->mutex);
    assert(lookup->n_holders > 0);
    bool is_last = --lookup->n_holders == 0;
    pthread_mutex_unlock(&lookup->mutex);
    if (!is_last)
        return;
    pthread_cond_destroy(&lookup->changed);
    pthread_mutex_destroy(&lookup->mutex);
    free(lookup);
}

/* ---- one question ---- */

static void add_found(struct name_lookup *lookup, const struct addrinfo *one)
{
    char text[ADDRESS_TEXT_MAX];
    struct address address = {.port = lookup->address.port};
    if (getnameinfo(one->ai_addr, one->ai_addrlen, address.host, sizeof address.host, NULL, 0,
                    NI_NUMERICHOST) != 0)
        return;
    address_format(&address, text);
    address_set_add(&lookup->found, text);
}

static enum name_answer answer_of(int code)
{
    switch (code) {
    case 0:
        return NAME_FOUND;
    case EAI_NONAME:
#ifdef EAI_NODATA
    case EAI_NODATA:
#endif
#ifdef EAI_ADDRFAMILY
    case EAI_ADDRFAMILY:
#endif
        return NAME_NOTHING;
    default:
        return NAME_FAILED;
    }
}

/* why_out: good for ever. */
static enum name_answer ask(struct name_lookup *lookup, const char **why_out)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *all = NULL;
    int code = getaddrinfo(lookup->address.host, NULL, &hints, &all);
    address_set_clear(&lookup->found);
    for (const struct addrinfo *one = code == 0 ? all : NULL; one; one = one->ai_next)
        add_found(lookup, one);
    if (all)
        freeaddrinfo(all);
    *why_out = code != 0 ? gai_strerror(code) : "no address";
    enum name_answer answer = answer_of(code);
    return answer == NAME_FOUND && lookup->found.n == 0 ? NAME_NOTHING : answer;
}

static void tell(struct name_lookup *lookup)
{
    const char *addresses[PROCESS_PEERS_MAX];
    const struct address_set *set = &lookup->name.set;
    assert(set->n <= PROCESS_PEERS_MAX && !lookup->is_stopping && "no word after the stop");
    for (uint32_t i = 0; i < set->n; i++)
        addresses[i] = set->addresses[i];
    lookup->options.on_change(lookup->options.arg, addresses, set->n);
}

/* With the mutex. */
static void take(struct name_lookup *lookup, enum name_answer answer, const char *why)
{
    uint64_t now_ns = clock_now_ns();
    const char *host = lookup->address.host;
    if (name_set_take(&lookup->name, answer, &lookup->found, now_ns)) {
        log_info("name %s addresses %u", host, lookup->name.set.n);
        if (lookup->found.n_left_out > 0)
            log_warn("name %s has %u addresses more than the %d that are used", host,
                     lookup->found.n_left_out, PROCESS_PEERS_MAX);
        tell(lookup);
    }
    if (reminder_is_due(&lookup->reminder, answer != NAME_FOUND, now_ns))
        log_warn("name %s cannot be resolved: %s; addresses known %u", host, why,
                 lookup->name.set.n);
}

/* ---- the thread ---- */

/* With the mutex: until it is time to ask again. */
static void rest(struct name_lookup *lookup)
{
    uint64_t asked_ns = clock_now_ns();
    for (;;) {
        bool is_hurried = lookup->is_hurried && PAUSE_NS < lookup->options.interval_ns;
        uint64_t until_ns = asked_ns + (is_hurried ? PAUSE_NS : lookup->options.interval_ns);
        if (lookup->is_stopping || clock_now_ns() >= until_ns)
            break;
        cond_wait_until(&lookup->changed, &lookup->mutex, until_ns);
    }
    lookup->is_hurried = false;
}

static void *run(void *arg)
{
    struct name_lookup *lookup = arg;
    pthread_mutex_lock(&lookup->mutex);
    while (!lookup->is_stopping) {
        const char *why;
        pthread_mutex_unlock(&lookup->mutex);
        enum name_answer answer = ask(lookup, &why);
        pthread_mutex_lock(&lookup->mutex);
        if (!lookup->is_stopping) {
            take(lookup, answer, why);
            rest(lookup);
        }
    }
    lookup->has_ended = true;
    pthread_cond_signal(&lookup->changed);
    pthread_mutex_unlock(&lookup->mutex);
    release(lookup);
    return NULL;
}

enum status name_lookup_start(const struct name_lookup_options *options,
                              struct name_lookup **lookup_out)
{
    struct name_lookup *lookup = calloc(1, sizeof *lookup);
    if (!lookup)
        return STATUS_NO_MEMORY;
    lookup->options = *options;
    lookup->options.host = NULL;
    lookup->address.port = options->port;
    snprintf(lookup->address.host, sizeof lookup->address.host, "%s", options->host);
    lookup->name.empty_after_ns = EMPTY_AFTER_NS;
    lookup->n_holders = 2;
    pthread_mutex_init(&lookup->mutex, NULL);
    cond_init(&lookup->changed);
    if (pthread_create(&lookup->thread, NULL, run, lookup) != 0) {
        lookup->n_holders = 1;
        release(lookup);
        return STATUS_NO_THREAD;
    }
    (void)pthread_setname_np(lookup->thread, "resolve");
    *lookup_out = lookup;
    return STATUS_OK;
}

void name_lookup_hurry(struct name_lookup *lookup)
{
    pthread_mutex_lock(&lookup->mutex);
    lookup->is_hurried = true;
    pthread_cond_signal(&lookup->changed);
    pthread_mutex_unlock(&lookup->mutex);
}

void name_lookup_stop(struct name_lookup *lookup)
{
    if (!lookup)
        return;
    uint64_t until_ns = clock_now_ns() + STOP_WAIT_NS;
    pthread_mutex_lock(&lookup->mutex);
    assert(!lookup->is_stopping && "stopped once, by who started it");
    lookup->is_stopping = true;
    pthread_cond_signal(&lookup->changed);
    while (!lookup->has_ended && clock_now_ns() < until_ns)
        cond_wait_until(&lookup->changed, &lookup->mutex, until_ns);
    bool has_ended = lookup->has_ended;
    pthread_mutex_unlock(&lookup->mutex);
    if (has_ended)
        pthread_join(lookup->thread, NULL);
    else
        pthread_detach(lookup->thread);
    release(lookup);
}
