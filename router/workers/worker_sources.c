#include "router/workers/worker_sources.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "discovery/k8s/k8s_endpoints.h"
#include "discovery/name_lookup.h"
#include "discovery/reminder.h"
#include "router/workers/worker_list.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

/* What watches one name or service. */
struct source {
    struct worker_sources *sources;
    const struct worker_entry *entry;
    struct address_set set;          /* as last delivered */
    struct name_lookup *lookup;      /* of a name, or */
    struct k8s_endpoints *endpoints; /* of a service */
};

struct worker_sources {
    struct worker_sources_options options;
    struct worker_list list;
    pthread_mutex_t mutex; /* of the sources' sets and has_changed */
    bool has_changed;
    struct source *watched; /* [list.n_watched] */
    uint32_t n_watched;     /* that were started */
    uint32_t n_losses;      /* of the clients, at the last look */
    bool is_crowded;
    struct reminder crowded;
    struct address_set wanted; /* scratch */
};

/* ---- what the list says ---- */

static enum status read_lists(struct worker_list *list, const char *generation_workers,
                              const char *context_workers, struct error *error)
{
    TRY(worker_list_read(list, WORKER_GENERATION, "generation_workers", generation_workers, error));
    return worker_list_read(list, WORKER_CONTEXT, "context_workers", context_workers, error);
}

enum status worker_sources_check(const char *generation_workers, const char *context_workers,
                                 struct error *error)
{
    struct worker_list *list = calloc(1, sizeof *list);
    if (!list)
        return STATUS_NO_MEMORY;
    enum status status = read_lists(list, generation_workers, context_workers, error);
    free(list);
    return status;
}

/* ---- what sources deliver ---- */

/* Called on a source's thread with all addresses of its entry. */
static void on_change(void *arg, const char *const *addresses, uint32_t n)
{
    struct source *source = arg;
    struct worker_sources *sources = source->sources;
    assert(source->entry->kind != ENTRY_ADDRESS && "an address leads to itself");
    pthread_mutex_lock(&sources->mutex);
    address_set_clear(&source->set);
    for (uint32_t i = 0; i < n; i++)
        address_set_add(&source->set, addresses[i]);
    sources->has_changed = true;
    pthread_mutex_unlock(&sources->mutex);
}

static enum status start_lookup(struct source *source)
{
    const struct worker_entry *entry = source->entry;
    const struct name_lookup_options options = {
        .host = entry->address.host,
        .port = entry->address.port,
        .interval_ns = source->sources->options.resolve_ns,
        .on_change = on_change,
        .arg = source,
    };
    return name_lookup_start(&options, &source->lookup);
}

static enum status start_endpoints(struct source *source, struct error *error)
{
    const struct k8s_target *service = &source->entry->service;
    const struct k8s_endpoints_options options = {
        .name_space = service->name_space,
        .service = service->service,
        .port = service->port,
        .on_change = on_change,
        .arg = source,
    };
    struct error wrong = {""};
    enum status status = k8s_endpoints_start(&options, &wrong, &source->endpoints);
    return status == STATUS_OK
               ? STATUS_OK
               : error_set(error, status, "%s: %s", source->entry->text, wrong.text);
}

/* Whatever watches it calls on_change(source, ...) from a thread of its own, and no more when it is stopped. */
static enum status start_source(struct source *source, struct error *error)
{
    return source->entry->kind == ENTRY_SERVICE ? start_endpoints(source, error)
                                                : start_lookup(source);
}

static void stop_source(struct source *source)
{
    assert(!source->lookup != !source->endpoints && "one of the two watches it");
    name_lookup_stop(source->lookup);
    k8s_endpoints_stop(source->endpoints);
}

/* A worker does not answer any more: it may have a new address. Watched Services report that
 * themselves. */
static void hurry_source(struct source *source)
{
    if (source->lookup)
        name_lookup_hurry(source->lookup);
}

/* ---- what the clients hear ---- */

static void collect(struct worker_sources *sources, enum worker_role role)
{
    struct address_set *wanted = &sources->wanted;
    address_set_clear(wanted);
    for (uint32_t i = 0; i < sources->list.n; i++)
        if (sources->list.entries[i].kind == ENTRY_ADDRESS && sources->list.entries[i].role == role)
            address_set_add(wanted, sources->list.entries[i].text);
    pthread_mutex_lock(&sources->mutex);
    for (uint32_t i = 0; i < sources->n_watched; i++)
        if (sources->watched[i].entry->role == role)
            address_set_add_all(wanted, &sources->watched[i].set);
    pthread_mutex_unlock(&sources->mutex);
    assert(wanted->n <= PROCESS_PEERS_MAX);
}

static uint32_t follow(struct worker_sources *sources, enum worker_role role)
{
    collect(sources, role);
    return sources->wanted.n_left_out +
           worker_clients_follow(sources->options.clients, role, &sources->wanted);
}

static void follow_all(struct worker_sources *sources, uint64_t now_ns)
{
    uint32_t n_left_out = follow(sources, WORKER_GENERATION);
    n_left_out += follow(sources, WORKER_CONTEXT);
    sources->is_crowded = n_left_out > 0;
    if (reminder_is_due(&sources->crowded, sources->is_crowded, now_ns))
        log_warn("workers left out %u: %d are used at one time", n_left_out, PROCESS_PEERS_MAX);
}

void worker_sources_look(struct worker_sources *sources, uint64_t now_ns)
{
    uint32_t n_losses = worker_clients_losses(sources->options.clients);
    for (uint32_t i = 0; n_losses != sources->n_losses && i < sources->n_watched; i++)
        hurry_source(&sources->watched[i]);
    sources->n_losses = n_losses;
    pthread_mutex_lock(&sources->mutex);
    bool has_changed = sources->has_changed;
    sources->has_changed = false;
    pthread_mutex_unlock(&sources->mutex);
    if (has_changed || sources->is_crowded) /* room may have come */
        follow_all(sources, now_ns);
}

/* ---- start and stop ---- */

static enum status start_all(struct worker_sources *sources, struct error *error)
{
    for (uint32_t i = 0; i < sources->list.n; i++) {
        if (sources->list.entries[i].kind == ENTRY_ADDRESS)
            continue;
        assert(sources->n_watched < sources->list.n_watched);
        struct source *source = &sources->watched[sources->n_watched];
        source->sources = sources;
        source->entry = &sources->list.entries[i];
        TRY(start_source(source, error));
        pthread_mutex_lock(&sources->mutex);
        sources->n_watched++;
        pthread_mutex_unlock(&sources->mutex);
    }
    return STATUS_OK;
}

enum status worker_sources_start(const struct worker_sources_options *options, struct error *error,
                                 struct worker_sources **sources_out)
{
    struct worker_sources *sources = calloc(1, sizeof *sources);
    if (!sources)
        return STATUS_NO_MEMORY;
    sources->options = *options;
    pthread_mutex_init(&sources->mutex, NULL);
    enum status status = read_lists(&sources->list, options->generation_workers,
                                    options->context_workers, error);
    sources->watched = calloc(sources->list.n_watched + 1, sizeof *sources->watched);
    if (status == STATUS_OK && !sources->watched)
        status = STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = start_all(sources, error);
    if (status != STATUS_OK) {
        worker_sources_stop(sources);
        return status;
    }
    assert(sources->n_watched == sources->list.n_watched && "each name and service is watched");
    follow_all(sources, clock_now_ns());
    *sources_out = sources;
    return STATUS_OK;
}

void worker_sources_stop(struct worker_sources *sources)
{
    if (!sources)
        return;
    assert(sources->watched || sources->n_watched == 0);
    for (uint32_t i = 0; i < sources->n_watched; i++)
        stop_source(&sources->watched[i]);
    free(sources->watched);
    pthread_mutex_destroy(&sources->mutex);
    free(sources);
}
