#include "router/watch/watch.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "router/watch/page.h"
#include "router/watch/watch_json.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { PAGES = 4 };

struct watch {
    struct watch_options options;
    struct http_page pages[PAGES];
    struct http_feed feed;
    pthread_mutex_t mutex; /* of the source: held while it is called */
    watch_source source;
    void *arg;
    struct watch_view view; /* of the server's thread, like text */
    char *text;
    atomic_uint n_readers;
};

static void make_page(void *arg, struct http_answer *answer)
{
    const struct page_part *part = arg;
    http_answer_set(answer, 200, part->type, part->begin, (size_t)(part->end - part->begin));
}

/* Takes the source's view; without a source that of a router that loads. */
static void take_view(struct watch *watch)
{
    struct watch_view *view = &watch->view;
    struct watch_request *live = view->live;
    struct watch_ended *ended = view->ended;
    memset(view, 0, sizeof *view);
    view->live = live;
    view->ended = ended;
    view->live_max = watch->options.live_max;
    view->ended_max = watch->options.ended_max;
    pthread_mutex_lock(&watch->mutex);
    if (watch->source)
        watch->source(watch->arg, view);
    pthread_mutex_unlock(&watch->mutex);
    assert(view->n_live <= view->live_max && view->n_ended <= view->ended_max);
    assert(view->n_workers <= WATCH_WORKERS_MAX && view->n_flows <= WATCH_FLOWS_MAX);
}

static void make_event(void *arg, const char **text_out, size_t *n_out)
{
    struct watch *watch = arg;
    take_view(watch);
    free(watch->text);
    if (watch_json(&watch->view, watch->options.names, &watch->text, n_out) == STATUS_OK) {
        *text_out = watch->text;
        return;
    }
    watch->text = NULL;
    *text_out = "{\"error\": \"out of memory\"}";
    *n_out = strlen(*text_out);
}

static void count_readers(void *arg, uint32_t n_readers)
{
    struct watch *watch = arg;
    atomic_store_explicit(&watch->n_readers, n_readers, memory_order_relaxed);
}

enum status watch_create(const struct watch_options *options, struct watch **watch_out)
{
    assert(options->live_max > 0 && options->ended_max > 0);
    struct watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return STATUS_NO_MEMORY;
    watch->options = *options;
    pthread_mutex_init(&watch->mutex, NULL);
    watch->view.live = calloc(options->live_max, sizeof *watch->view.live);
    watch->view.ended = calloc(options->ended_max, sizeof *watch->view.ended);
    if (!watch->view.live || !watch->view.ended) {
        watch_destroy(watch);
        return STATUS_NO_MEMORY;
    }
    for (int i = 0; i < PAGES; i++)
        watch->pages[i] = (struct http_page){PAGE_PARTS[i].path, make_page,
                                             (void *)(uintptr_t)&PAGE_PARTS[i]};
    watch->feed = (struct http_feed){
        .path = "/events",
        .readers_max = options->readers_max,
        .interval_ms = options->interval_ms,
        .behind_ms = options->behind_ms,
        .is_local = options->is_local,
        .make = make_event,
        .count = count_readers,
        .arg = watch,
    };
    *watch_out = watch;
    return STATUS_OK;
}

void watch_destroy(struct watch *watch)
{
    if (!watch)
        return;
    assert(!watch_is_read(watch) && "the server has closed");
    pthread_mutex_destroy(&watch->mutex);
    free(watch->view.live);
    free(watch->view.ended);
    free(watch->text);
    free(watch);
}

void watch_connect(struct watch *watch, watch_source source, void *arg)
{
    pthread_mutex_lock(&watch->mutex);
    watch->source = source;
    watch->arg = arg;
    pthread_mutex_unlock(&watch->mutex);
}

bool watch_is_read(const struct watch *watch)
{
    return atomic_load_explicit(&watch->n_readers, memory_order_relaxed) > 0;
}

const struct http_page *watch_pages(const struct watch *watch, size_t *n_out)
{
    *n_out = PAGES;
    return watch->pages;
}

const struct http_feed *watch_feed(const struct watch *watch)
{
    return &watch->feed;
}
