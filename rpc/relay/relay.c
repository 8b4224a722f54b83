#include "rpc/relay/relay.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "base/wake.h"
#include "rpc/relay/listener.h"
#include "rpc/relay/places.h"
#include "rpc/relay/relayed.h"

#include <assert.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define EVENTS_MAX      64
#define ACCEPTS_MAX     64 /* for each listener in a round */
#define TIMERS_MAX      4 /* in a round: many may be due at once, and events must not wait for them */
#define STUCK_WAIT_NS   (100 * NS_PER_MS)
#define LAST_BYTES_NS   (2 * NS_PER_S) /* for the last output of the core */
#define CONNECTIONS_S   3              /* seconds of its rate that an address may connect at once */
#define RESET_DEBT_OF_S 1              /* connections of an address with more debt are refused */
#define TRIM_BYTES      (16u << 20) /* of large requests at once: memory is given back afterwards */
#define TRIM_AFTER_NS   NS_PER_S
#define TRIM_AGAIN_NS   (10 * NS_PER_S)
#define WAKE_TAG        UINT64_MAX
#define STACK_BYTES     (256u << 10)

enum relay_wish { RELAY_RUN, RELAY_CLOSE, RELAY_STOP };

struct relay {
    struct listener listener;
    struct network_list exempt;
    struct relay_limits limits;
    struct relayed_common common;
    int wake;
    pthread_t thread;
    bool has_thread;
    uint64_t accept_again_ns; /* 0: the listeners are in the epoll set */
    uint64_t end_ns;          /* DEADLINE_NONE until the relay is stopped */
    uint64_t quit_until_ns;   /* DEADLINE_NONE except while it quits */
    uint64_t trim_ns;         /* DEADLINE_NONE: no memory to give back */
    bool trims_again;         /* after the next time */
    atomic_int wish;
    atomic_bool sends_away;
    atomic_bool quits;

    pthread_mutex_t lock; /* guards the members below */
    pthread_cond_t changed;
    bool has_quit;
    bool is_closed;
};

static atomic_uint_fast64_t failed_accepts;

uint64_t relay_failed_accepts(void)
{
    return atomic_load(&failed_accepts);
}

/* ---- accepting ---- */

/* The tag of a listener is its index; that of a connection is its pointer, which is never so small. */
static void watch_listeners(struct relay *relay, bool on)
{
    for (uint32_t i = 0; i < relay->listener.n; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = i};
        (void)epoll_ctl(relay->common.epoll, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL,
                        relay->listener.fds[i], &event);
    }
}

/* The limit of its address that a new connection exceeds, or RELAY_N_LIMITS. */
static enum relay_limit find_limit(const struct relay *relay, struct address_entry *address,
                                   uint64_t now_ns)
{
    const struct relay_limits *limits = &relay->limits;
    const struct budget_rate connections = {limits->address_connections_per_s, CONNECTIONS_S, 0};
    const struct budget_rate resets = {limits->address_resets_per_s, 2, 8};
    if (address->is_exempt)
        return RELAY_N_LIMITS;
    if (address->n_connections > limits->address_connections_max)
        return RELAY_LIMIT_ADDRESS_CONNECTIONS;
    if (budget_level(&address->connections, &connections, now_ns) < 1)
        return RELAY_LIMIT_ADDRESS_CONNECTION_RATE;
    if (budget_level(&address->resets, &resets, now_ns) <
        -(double)limits->address_resets_per_s * RESET_DEBT_OF_S)
        return RELAY_LIMIT_ADDRESS_RESET_DEBT;
    (void)budget_take(&address->connections, &connections, 1, now_ns);
    return RELAY_N_LIMITS;
}

/* Closes another connection if the port is full. False: none can be closed. */
static bool make_room(struct relay *relay, const struct address_entry *newcomer, uint64_t now_ns)
{
    struct relayed_common *common = &relay->common;
    assert(common->n_unproven <= common->n);
    bool is_full = common->n >= relay->limits.connections_max;
    if (!is_full && common->n_unproven < relay->limits.unproven_max)
        return true;
    session_count(&common->session, is_full ? RELAY_LIMIT_CONNECTIONS : RELAY_LIMIT_UNPROVEN);
    struct relayed *dispensable = places_find(common, newcomer, is_full);
    if (dispensable)
        relayed_give_up(common, dispensable, now_ns);
    return dispensable != NULL;
}

static void take_connection(struct relay *relay, int fd, const struct sockaddr_storage *at,
                            uint64_t now_ns)
{
    struct network_address address;
    struct rpc_peer peer = {.is_encrypted = false};
    struct relayed *relayed;
    bool has_address = network_address_of(at, &address);
    struct address_entry *entry = address_book_enter(relay->common.addresses,
                                                     has_address ? &address : NULL);
    if (!entry) {
        listener_refuse(fd);
        return;
    }
    enum relay_limit limit = find_limit(relay, entry, now_ns);
    if (limit != RELAY_N_LIMITS)
        session_count(&relay->common.session, limit);
    if (limit != RELAY_N_LIMITS || !make_room(relay, entry, now_ns)) {
        address_book_leave(relay->common.addresses, entry);
        listener_refuse(fd);
        return;
    }
    network_peer_name(at, peer.address, sizeof peer.address);
    if (relayed_create(&relay->common, fd, entry, &peer, now_ns, &relayed) != STATUS_OK)
        log_warn("out of memory for a connection");
}

static void accept_again_later(struct relay *relay, uint64_t now_ns)
{
    assert(relay->accept_again_ns == 0);
    watch_listeners(relay, false);
    relay->accept_again_ns = now_ns + STUCK_WAIT_NS;
}

static void note_failed_accept(struct relay *relay)
{
    session_count(&relay->common.session, RELAY_LIMIT_DESCRIPTORS);
    if (atomic_fetch_add(&failed_accepts, 1) == 0)
        log_warn("no descriptor for a connection: it was refused (ulimit -n)");
}

static void accept_some(struct relay *relay, uint32_t index, uint64_t now_ns)
{
    for (uint32_t i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_storage at;
        int fd;
        switch (listener_accept(&relay->listener, index, &fd, &at)) {
        case LISTENER_ACCEPTED:
            take_connection(relay, fd, &at, now_ns);
            break;
        case LISTENER_NONE:
            return;
        case LISTENER_REFUSED:
            note_failed_accept(relay);
            break;
        case LISTENER_STUCK:
            note_failed_accept(relay);
            accept_again_later(relay, now_ns);
            return;
        }
    }
}

/* ---- the thread ---- */

static void tell(struct relay *relay, bool *fact)
{
    pthread_mutex_lock(&relay->lock);
    *fact = true;
    pthread_cond_broadcast(&relay->changed);
    pthread_mutex_unlock(&relay->lock);
}

static void await(struct relay *relay, const bool *fact)
{
    pthread_mutex_lock(&relay->lock);
    while (!*fact)
        pthread_cond_wait(&relay->changed, &relay->lock);
    pthread_mutex_unlock(&relay->lock);
}

/* Once. */
static void close_listeners(struct relay *relay, uint64_t now_ns)
{
    if (relay->common.is_closing)
        return;
    if (relay->accept_again_ns == 0)
        watch_listeners(relay, false);
    relay->accept_again_ns = 0;
    listener_close(&relay->listener);
    relay->common.is_closing = true;
    for (struct relayed *relayed = relay->common.first; relayed;) {
        struct relayed *next = relayed->next;
        if (relayed->state == RELAYED_NEW || relayed->state == RELAYED_HANDSHAKE)
            relayed_drop(&relay->common, relayed, now_ns);
        relayed = next;
    }
    tell(relay, &relay->is_closed);
}

/* Ends the quitting if no connection is open any more, or the time is over. Who is left then, or came after that, hears nothing
 * more of the core: as it ends it says CANCELLED of calls that it has not begun, which nobody cancelled. */
static void look_who_is_left(struct relay *relay, uint64_t now_ns)
{
    if (relay->quit_until_ns == DEADLINE_NONE)
        return;
    const struct relayed *relayed = relay->common.first;
    while (relayed && relayed->state != RELAYED_OPEN && relayed->state != RELAYED_LAST_BYTES)
        relayed = relayed->next;
    if (relayed && now_ns < relay->quit_until_ns)
        return;
    for (struct relayed *left = relay->common.first, *next; left; left = next) {
        next = left->next;
        relayed_part(&relay->common, left, now_ns);
    }
    close_listeners(relay, now_ns);
    relay->quit_until_ns = DEADLINE_NONE;
    tell(relay, &relay->has_quit);
}

static void send_away(struct relay *relay, uint64_t now_ns)
{
    for (struct relayed *relayed = relay->common.first, *next; relayed; relayed = next) {
        next = relayed->next;
        relayed_send_away(&relay->common, relayed, now_ns);
    }
}

static void heed_wish(struct relay *relay, uint64_t now_ns)
{
    if (atomic_exchange(&relay->sends_away, false))
        send_away(relay, now_ns);
    int wish = atomic_load(&relay->wish);
    if (atomic_load(&relay->quits) && !relay->common.session.is_quitting) {
        relay->common.session.is_quitting = true;
        relay->quit_until_ns = now_ns + RELAY_QUIT_NS;
        send_away(relay, now_ns);
    }
    if (wish != RELAY_RUN)
        close_listeners(relay, now_ns);
    if (wish == RELAY_STOP && relay->end_ns == DEADLINE_NONE)
        relay->end_ns = now_ns + LAST_BYTES_NS;
}

/* True: the relay may end. Connections that ended for a limit need no more time; those that were
 * served may still have output to read. */
static bool is_over(struct relay *relay, uint64_t now_ns)
{
    if (relay->end_ns == DEADLINE_NONE)
        return false;
    bool has_more = false;
    for (struct relayed *relayed = relay->common.first; relayed; relayed = relayed->next)
        has_more = has_more || relayed->state != RELAYED_LINGER || relayed->farewell_bytes > 0;
    return !has_more || now_ns >= relay->end_ns;
}

/* After a flood of large requests the C library keeps the freed memory; malloc_trim gives it back. Once more later: on a busy
 * machine gRPC's threads free what they have read after the first time. */
static void give_back_memory(struct relay *relay, uint64_t now_ns)
{
    if (relay->common.session.room.bytes >= TRIM_BYTES) {
        relay->trim_ns = now_ns + TRIM_AFTER_NS;
        relay->trims_again = true;
    } else if (now_ns >= relay->trim_ns) {
        (void)malloc_trim(0);
        relay->trim_ns = relay->trims_again ? now_ns + TRIM_AGAIN_NS : DEADLINE_NONE;
        relay->trims_again = false;
    }
}

static int wait_ms(const struct relay *relay, uint64_t now_ns)
{
    const struct timer *first = timer_heap_first(&relay->common.timers);
    uint64_t due_ns = first ? first->due_ns : DEADLINE_NONE;
    if (relay->accept_again_ns > 0 && relay->accept_again_ns < due_ns)
        due_ns = relay->accept_again_ns;
    due_ns = clock_earlier(due_ns, clock_earlier(relay->end_ns, relay->trim_ns));
    due_ns = clock_earlier(due_ns, relay->quit_until_ns);
    if (relay->common.first_waiting)
        due_ns = clock_earlier(due_ns, turns_next_round_ns(now_ns));
    if (due_ns == DEADLINE_NONE)
        return -1;
    if (due_ns <= now_ns)
        return 0;
    uint64_t ms = (due_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
    return ms < INT32_MAX ? (int)ms : INT32_MAX;
}

static void run_timers(struct relay *relay, uint64_t now_ns)
{
    if (relay->accept_again_ns > 0 && now_ns >= relay->accept_again_ns) {
        relay->accept_again_ns = 0;
        watch_listeners(relay, true);
    }
    for (uint32_t i = 0; i < TIMERS_MAX; i++) {
        struct timer *timer = timer_heap_first(&relay->common.timers);
        if (!timer || timer->due_ns > now_ns)
            return;
        relayed_on_time(&relay->common, timer->owner, now_ns);
    }
}

static void take_handshakes(struct relay *relay, uint64_t now_ns)
{
    void *owner;
    enum tls_progress progress;
    while (relay->common.handshakes && handshakes_take(relay->common.handshakes, &owner, &progress))
        relayed_on_handshake(&relay->common, owner, progress, now_ns);
}

static void on_event(struct relay *relay, const struct epoll_event *event, uint64_t now_ns)
{
    uint64_t tag = event->data.u64;
    if (tag == WAKE_TAG) {
        (void)wake_take(relay->wake);
        take_handshakes(relay, now_ns);
    } else if (tag < LISTENER_SOCKETS_MAX) {
        if (!relay->common.is_closing && relay->accept_again_ns == 0)
            accept_some(relay, (uint32_t)tag, now_ns);
    } else {
        struct relayed *relayed = (struct relayed *)(uintptr_t)(tag & ~(uint64_t)1);
        relayed_on_event(&relay->common, relayed, (enum relayed_side)(tag & 1), event->events,
                         now_ns);
    }
}

static void *run(void *arg)
{
    struct relay *relay = arg;
    struct epoll_event events[EVENTS_MAX];
    pthread_setname_np(pthread_self(), "rpc-relay");
    uint64_t now_ns = clock_now_ns();
    while (!is_over(relay, now_ns)) {
        int n = epoll_wait(relay->common.epoll, events, EVENTS_MAX, wait_ms(relay, now_ns));
        now_ns = clock_now_ns();
        for (int i = 0; i < n; i++)
            on_event(relay, &events[i], now_ns);
        heed_wish(relay, now_ns); /* after its event: a later wish wakes again */
        run_timers(relay, now_ns);
        give_back_memory(relay, now_ns);
        relayed_go_on(&relay->common, now_ns);
        relayed_make_room(&relay->common, now_ns); /* last: the steps above free room */
        look_who_is_left(relay, now_ns);
        relayed_free_gone(&relay->common);
    }
    return NULL;
}

static void wish_for(struct relay *relay, enum relay_wish wish)
{
    atomic_store(&relay->wish, wish);
    wake_send(relay->wake);
}

/* ---- life ---- */

static enum status open_parts(struct relay *relay, const struct relay_options *options,
                              struct error *error)
{
    struct relayed_common *common = &relay->common;
    TRY(network_list_read(relay->limits.exempt ? relay->limits.exempt : "", &relay->exempt, error));
    TRY(listener_open(&relay->listener, options->address, error));
    TRY(address_book_create(&relay->exempt, &common->addresses));
    TRY(timer_heap_init(&common->timers, relay->limits.connections_max + 1));
    common->buffer = malloc(RELAYED_READ_BYTES);
    if (!common->buffer)
        return STATUS_NO_MEMORY;
    common->tls = options->tls;
    common->epoll = epoll_create1(EPOLL_CLOEXEC);
    relay->wake = wake_open();
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_TAG};
    if (common->epoll < 0 || relay->wake < 0 ||
        epoll_ctl(common->epoll, EPOLL_CTL_ADD, relay->wake, &event) != 0)
        return error_set(error, STATUS_IO_FAILED, "cannot wait for connections: %s",
                         strerror(errno));
    return options->tls ? handshakes_start(relay->limits.handshakes_per_s, relay->wake, error,
                                           &common->handshakes)
                        : STATUS_OK;
}

enum status relay_open(const struct relay_options *options, struct error *error,
                       struct relay **relay_out)
{
    assert(options->address && options->hand_over);
    struct relay *relay = calloc(1, sizeof *relay);
    if (!relay)
        return STATUS_NO_MEMORY;
    relay->limits = options->limits;
    relay->wake = -1;
    relay->end_ns = relay->quit_until_ns = relay->trim_ns = DEADLINE_NONE;
    relay->common.epoll = -1;
    relay->common.hand_over = options->hand_over;
    relay->common.arg = options->arg;
    relay->common.session.limits = &relay->limits;
    relay->common.session.metrics = options->metrics;
    pthread_mutex_init(&relay->lock, NULL);
    pthread_cond_init(&relay->changed, NULL);
    enum status status = open_parts(relay, options, error);
    if (status != STATUS_OK) {
        relay_destroy(relay);
        return status;
    }
    *relay_out = relay;
    return STATUS_OK;
}

uint16_t relay_port(const struct relay *relay)
{
    return relay->listener.port;
}

enum status relay_start(struct relay *relay, struct error *error)
{
    assert(!relay->has_thread);
    pthread_attr_t attributes;
    watch_listeners(relay, true);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    int failed = pthread_create(&relay->thread, &attributes, run, relay);
    pthread_attr_destroy(&attributes);
    if (failed)
        return error_set(error, STATUS_NO_THREAD, "no thread for connections: %s",
                         strerror(failed));
    relay->has_thread = true;
    return STATUS_OK;
}

void relay_send_away(struct relay *relay)
{
    atomic_store(&relay->sends_away, true);
    wake_send(relay->wake);
}

void relay_quit(struct relay *relay)
{
    if (!relay || !relay->has_thread)
        return;
    atomic_store(&relay->quits, true);
    wake_send(relay->wake);
    await(relay, &relay->has_quit);
}

void relay_close(struct relay *relay)
{
    if (!relay || !relay->has_thread)
        return;
    wish_for(relay, RELAY_CLOSE);
    await(relay, &relay->is_closed);
}

static void free_parts(struct relay *relay)
{
    struct relayed_common *common = &relay->common;
    uint64_t now_ns = clock_now_ns();
    while (common->first)
        relayed_drop(common, common->first, now_ns);
    assert(common->n == 0 && common->n_unproven == 0 && common->kept_bytes == 0);
    assert(common->session.n_half_open == 0 && common->session.room.bytes == 0);
    relayed_free_gone(common);
    handshakes_stop(common->handshakes);
    listener_close(&relay->listener);
    address_book_destroy(common->addresses);
    timer_heap_finish(&common->timers);
    free(common->buffer);
    if (common->epoll >= 0)
        close(common->epoll);
    if (relay->wake >= 0)
        close(relay->wake);
}

void relay_destroy(struct relay *relay)
{
    if (!relay)
        return;
    if (relay->has_thread) {
        wish_for(relay, RELAY_STOP);
        pthread_join(relay->thread, NULL);
    }
    free_parts(relay);
    pthread_cond_destroy(&relay->changed);
    pthread_mutex_destroy(&relay->lock);
    free(relay);
}
