/* watch: its feed shows what its source says, a router that loads before there is one, and asks for nothing that nobody reads. */
#include "base/http/http_server.h"
#include "router/watch/watch.h"
#include "tests/base/support/loopback.h"

#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static atomic_int n_asked;

static void source(void *arg, struct watch_view *view)
{
    cr_assert_eq(view->n_live, 0, "a fresh view");
    atomic_fetch_add(&n_asked, 1);
    view->is_serving = true;
    view->n_live = 1;
    view->live[0] = (struct watch_request){.number = 5};
    snprintf(view->name, sizeof view->name, "%s", (const char *)arg);
}

struct rig {
    struct watch *watch;
    struct http_server *server;
};

static void open_rig(struct rig *rig)
{
    const struct watch_options options = {.live_max = 1,
                                          .ended_max = 1,
                                          .readers_max = 4,
                                          .interval_ms = 5,
                                          .behind_ms = 1000,
                                          .names = true,
                                          .is_local = true};
    struct error error = {0};
    cr_assert_eq(watch_create(&options, &rig->watch), STATUS_OK);
    struct http_server_options http = {.address = "127.0.0.1:0", .feed = watch_feed(rig->watch)};
    http.pages = watch_pages(rig->watch, &http.n_pages);
    cr_assert_eq(http_server_open(&http, &rig->server, &error), STATUS_OK, "%s", error.text);
}

static void close_rig(struct rig *rig)
{
    http_server_close(rig->server);
    watch_destroy(rig->watch);
}

static int ask(const struct rig *rig, const char *path)
{
    char request[100];
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    int fd = loopback_connect(AF_INET, http_server_port(rig->server));
    cr_assert_geq(fd, 0);
    cr_assert_eq(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
    return fd;
}

/* Reads until the text has come, at most a page's bytes. */
static bool reads(int fd, const char *text)
{
    static char seen[256 * 1024];
    size_t n_seen = 0;
    for (ssize_t n; n_seen < sizeof seen - 1; n_seen += (size_t)n) {
        n = recv(fd, seen + n_seen, sizeof seen - 1 - n_seen, 0);
        if (n <= 0)
            return false;
        seen[n_seen + (size_t)n] = '\0';
        if (strstr(seen, text))
            return true;
    }
    return false;
}

Test(watch, the_page_and_its_files_are_there, .timeout = 60)
{
    static const char *const files[][2] = {{"/", "<!doctype html>"},
                                           {"/page.css", ":root {"},
                                           {"/page.js", "'use strict';"},
                                           {"/page.svg", "<svg "}};
    struct rig rig;
    open_rig(&rig);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        int fd = ask(&rig, files[i][0]);
        cr_expect(reads(fd, files[i][1]), "%s", files[i][0]);
        close(fd);
    }
    cr_expect_not(watch_is_read(rig.watch), "a page is no reader of the feed");
    close_rig(&rig);
}

Test(watch, shows_its_source_from_when_to_when_it_has_one, .timeout = 60)
{
    struct rig rig;
    char name[] = "one", other[] = "two";
    open_rig(&rig);
    int fd = ask(&rig, "/events");
    cr_expect(reads(fd, "\"state\":\"not ready\""));
    cr_expect(watch_is_read(rig.watch));
    watch_connect(rig.watch, source, name);
    cr_expect(reads(fd, "\"name\":\"one\""));
    watch_connect(rig.watch, source, other);
    cr_expect(reads(fd, "\"name\":\"two\""));
    watch_connect(rig.watch, NULL, NULL);
    int n = atomic_load(&n_asked);
    cr_expect_gt(n, 1);
    cr_expect(reads(fd, "\"name\":\"\""));
    cr_expect_eq(atomic_load(&n_asked), n, "a source that has left is not asked");
    close(fd);
    close_rig(&rig);
}

/* For tsan: the source changes while the server asks it. */
Test(watch, sources_come_and_go_under_readers, .timeout = 60)
{
    struct rig rig;
    char name[] = "here";
    int fds[4];
    open_rig(&rig);
    for (int i = 0; i < 4; i++)
        fds[i] = ask(&rig, "/events");
    for (int i = 0; i < 200; i++) {
        watch_connect(rig.watch, source, name);
        cr_assert(reads(fds[i % 4], "data: "));
        watch_connect(rig.watch, NULL, NULL);
    }
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    close_rig(&rig);
}
