#include "router/router_watch.h"

#include "base/clock.h"

#include <stdio.h>

static bool is_loopback(const char *text)
{
    struct address address;
    return address_parse_listen(text, &address, NULL) == STATUS_OK && address_is_loopback(&address);
}

enum status router_watch_open(const struct router_config *config, struct watch **watch_out)
{
    bool is_local = is_loopback(config->metrics_address);
    const struct watch_options options = {
        .live_max = config->page_requests_max,
        .ended_max = config->page_ended_max,
        .readers_max = config->page_readers_max,
        .interval_ms = (uint32_t)config->page_interval_ms,
        .behind_ms = (uint32_t)config->page_behind_ms,
        .names = config->page_names == PAGE_NAMES_ON ||
                 (config->page_names == PAGE_NAMES_LOOPBACK && is_local),
        .is_local = is_local,
    };
    if (config->page && config->metrics_address[0])
        return watch_create(&options, watch_out);
    *watch_out = NULL;
    return STATUS_OK;
}

void router_watch_fill(void *arg, struct watch_view *view)
{
    const struct router_watch *from = arg;
    view->now_ns = clock_now_ns();
    view->uptime_ms = (view->now_ns - from->process->started_ns) / NS_PER_MS;
    view->is_serving = true;
    view->is_draining = process_is_leaving(from->process);
    snprintf(view->name, sizeof view->name, "%s", from->process->name);
    snprintf(view->model, sizeof view->model, "%s", from->model_name);
    view->n_early = early_requests_count(from->early);
    view->n_workers = worker_clients_watch(from->workers, view->workers);
    dispatch_watch(from->dispatch, view);
}
