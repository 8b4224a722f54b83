/* watch_json: a view is one line of JSON of the shape that the page reads; hostile texts stay text, and hidden names are not
 * in it. */
#include "base/clock.h"
#include "router/watch/watch_json.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char HOSTILE[] = "<script>alert(\"1\")</script>'\\ \n\r\xe2\x80\xa8 \x1b[31m \xff\xfe";

static struct watch_view *new_view(uint32_t live_max, uint32_t ended_max)
{
    struct watch_view *view = calloc(1, sizeof *view);
    view->live = calloc(live_max, sizeof *view->live);
    view->ended = calloc(ended_max, sizeof *view->ended);
    view->live_max = live_max;
    view->ended_max = ended_max;
    return view;
}

static void free_view(struct watch_view *view)
{
    free(view->live);
    free(view->ended);
    free(view);
}

/* The parsed line; the caller drops it. */
static json_t *shown(const struct watch_view *view, bool names)
{
    char *text;
    size_t n;
    cr_assert_eq(watch_json(view, names, &text, &n), STATUS_OK);
    cr_assert_eq(strlen(text), n);
    for (size_t i = 0; i < n; i++)
        cr_assert((unsigned char)text[i] >= ' ', "an event is one line: byte %zu", i);
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    cr_assert_not_null(root);
    free(text);
    return root;
}

static struct watch_view *one_of_each(void)
{
    struct watch_view *view = new_view(1, 1);
    view->is_serving = true;
    view->now_ns = 5 * NS_PER_S;
    view->n_workers = view->n_flows = view->n_live = view->n_ended = 1;
    view->counts = (struct watch_counts){.live = 7, .waiting = 2, .tokens = 99};
    view->workers[0] = (struct watch_worker){.is_context = true,
                                             .state = WATCH_READY,
                                             .is_used = true,
                                             .has_state = true,
                                             .running = 3,
                                             .blocks = {.all = 10, .free = 4, .cached = 1},
                                             .kv_bytes_sent = 1ull << 40};
    view->live[0] = (struct watch_request){
        .number = 12, .phase = WATCH_PREFILL, .n_prompt = 100, .n_done = 64};
    view->ended[0] = (struct watch_ended){.number = 11,
                                          .status = STATUS_PEER_LOST,
                                          .ended_ns = 3 * NS_PER_S,
                                          .first_token_us = 1000,
                                          .total_us = 3000,
                                          .prefill_us = 800,
                                          .decode_us = 2000};
    return view;
}

static const char *text_at(json_t *root, const char *list, const char *key)
{
    return json_string_value(json_object_get(json_array_get(json_object_get(root, list), 0), key));
}

static json_int_t number_at(json_t *root, const char *list, const char *key)
{
    return json_integer_value(json_object_get(json_array_get(json_object_get(root, list), 0), key));
}

Test(watch_json, has_the_shape_that_the_page_reads)
{
    struct watch_view *view = one_of_each();
    json_t *root = shown(view, true);
    cr_expect_str_eq(json_string_value(json_object_get(json_object_get(root, "router"), "state")),
                     "ready");
    cr_expect_eq(json_integer_value(json_object_get(json_object_get(root, "counts"), "live")), 7);
    cr_expect_str_eq(text_at(root, "workers", "role"), "context");
    cr_expect_str_eq(text_at(root, "workers", "state"), "ready");
    cr_expect_eq(number_at(root, "workers", "kv_out"), 1ll << 40);
    cr_expect_str_eq(text_at(root, "live", "phase"), "prefill");
    cr_expect_eq(number_at(root, "live", "done"), 64);
    cr_expect_str_eq(text_at(root, "ended", "status"), "PEER_LOST");
    cr_expect_eq(number_at(root, "ended", "ago_ms"), 2000);
    json_t *parts = json_object_get(json_array_get(json_object_get(root, "ended"), 0), "parts");
    json_t *decode = json_object_get(parts, "decode");
    cr_expect_eq(json_integer_value(json_array_get(decode, 0)), 1000);
    cr_expect_eq(json_integer_value(json_array_get(decode, 1)), 2000);
    json_decref(root);
    free_view(view);
}

Test(watch_json, a_worker_that_has_not_answered_has_no_figures)
{
    struct watch_view *view = one_of_each();
    view->workers[0].has_state = false;
    view->workers[0].state = WATCH_NO_ANSWER;
    json_t *root = shown(view, true);
    cr_expect_str_eq(text_at(root, "workers", "state"), "no answer");
    cr_expect_null(json_object_get(json_array_get(json_object_get(root, "workers"), 0), "blocks"));
    json_decref(root);
    free_view(view);
}

Test(watch_json, a_router_that_cannot_serve_says_why)
{
    struct watch_view *view = new_view(1, 1);
    json_t *root = shown(view, true);
    json_t *router = json_object_get(root, "router");
    cr_expect_str_eq(json_string_value(json_object_get(router, "state")), "not ready");
    cr_expect_str_eq(json_string_value(json_object_get(router, "reason")),
                     status_text(STATUS_LOADING));
    json_decref(root);
    view->is_serving = true;
    view->lacks = STATUS_NO_GENERATION_WORKER;
    root = shown(view, true);
    cr_expect_str_eq(json_string_value(json_object_get(json_object_get(root, "router"), "reason")),
                     status_text(STATUS_NO_GENERATION_WORKER));
    json_decref(root);
    free_view(view);
}

Test(watch_json, hostile_texts_stay_text)
{
    struct watch_view *view = one_of_each();
    snprintf(view->name, sizeof view->name, "%s", HOSTILE);
    snprintf(view->workers[0].name, sizeof view->workers[0].name, "%s", HOSTILE);
    snprintf(view->workers[0].reason, sizeof view->workers[0].reason, "%s", HOSTILE);
    snprintf(view->live[0].id, sizeof view->live[0].id, "%s", HOSTILE);
    snprintf(view->live[0].tenant, sizeof view->live[0].tenant, "%.60s", HOSTILE);
    snprintf(view->ended[0].id, sizeof view->ended[0].id, "%s", HOSTILE);
    snprintf(view->ended[0].context_worker, sizeof view->ended[0].context_worker, "%s", HOSTILE);
    json_t *root = shown(view, true);
    static const char expected[] = "<script>alert(\"1\")</script>'\\ ";
    cr_expect_eq(strncmp(text_at(root, "live", "id"), expected, strlen(expected)), 0);
    cr_expect_null(strchr(text_at(root, "live", "id"), '\x1b'));
    cr_expect_eq(strncmp(text_at(root, "workers", "name"), expected, strlen(expected)), 0);
    cr_expect_eq(strncmp(text_at(root, "ended", "context"), expected, strlen(expected)), 0);
    json_decref(root);
    free_view(view);
}

Test(watch_json, names_are_only_shown_if_they_may_be)
{
    struct watch_view *view = one_of_each();
    snprintf(view->live[0].id, sizeof view->live[0].id, "secret-live");
    snprintf(view->live[0].tenant, sizeof view->live[0].tenant, "secret-tenant");
    snprintf(view->ended[0].id, sizeof view->ended[0].id, "secret-ended");
    snprintf(view->ended[0].tenant, sizeof view->ended[0].tenant, "secret-too");
    for (int names = 0; names <= 1; names++) {
        char *text;
        size_t n;
        cr_assert_eq(watch_json(view, names, &text, &n), STATUS_OK);
        cr_expect_eq(strstr(text, "secret-live") != NULL, names);
        cr_expect_eq(strstr(text, "secret-tenant") != NULL, names);
        cr_expect_eq(strstr(text, "secret-ended") != NULL, names);
        cr_expect_eq(strstr(text, "secret-too") != NULL, names);
        free(text);
    }
    free_view(view);
}

static void fill_text(char *text, size_t bytes)
{
    memset(text, '"', bytes - 1); /* twice as long in JSON */
    text[bytes - 1] = '\0';
}

Test(watch_json, the_largest_view_is_a_few_megabytes)
{
    struct watch_view *view = new_view(1000, 1000);
    view->n_live = view->n_ended = 1000;
    view->n_workers = WATCH_WORKERS_MAX;
    view->n_flows = WATCH_FLOWS_MAX;
    for (uint32_t i = 0; i < 1000; i++) {
        fill_text(view->live[i].id, sizeof view->live[i].id);
        fill_text(view->live[i].context_worker, sizeof view->live[i].context_worker);
        fill_text(view->live[i].generation_worker, sizeof view->live[i].generation_worker);
        fill_text(view->ended[i].id, sizeof view->ended[i].id);
        fill_text(view->ended[i].context_worker, sizeof view->ended[i].context_worker);
        fill_text(view->ended[i].generation_worker, sizeof view->ended[i].generation_worker);
    }
    for (uint32_t i = 0; i < WATCH_WORKERS_MAX; i++) {
        fill_text(view->workers[i].name, sizeof view->workers[i].name);
        fill_text(view->workers[i].reason, sizeof view->workers[i].reason);
    }
    char *text;
    size_t n;
    cr_assert_eq(watch_json(view, true, &text, &n), STATUS_OK);
    cr_expect_lt(n, 4u << 20, "%zu bytes", n);
    free(text);
    free_view(view);
}
