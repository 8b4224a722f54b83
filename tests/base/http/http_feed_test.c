/* http_server's feed: readers get events from the first on, a slow one is cut off, and none keeps another out. */

#include "base/http/http_server.h"
#include "tests/base/support/loopback.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READERS_MAX = 3, TEXT_MAX = 512 * 1024 };

/* What the server's thread makes and counts. */
struct source {
    atomic_int n_made, n_readers;
    atomic_size_t pad_bytes; /* behind each event's number */
    char text[TEXT_MAX + 32];
};

static struct source source;

static void make_event(void *arg, const char **text_out, size_t *n_out)
{
    struct source *from = arg;
    int n = snprintf(from->text, 32, "%d ", atomic_fetch_add(&from->n_made, 1));
    size_t pad = atomic_load(&from->pad_bytes);
    memset(from->text + n, 'x', pad);
    *text_out = from->text;
    *n_out = (size_t)n + pad;
}

static void count_readers(void *arg, uint32_t n_readers)
{
    atomic_store(&((struct source *)arg)->n_readers, (int)n_readers);
}

static void make_page(void *arg, struct http_answer *answer)
{
    (void)arg;
    http_answer_text(answer, 200, "a page\n");
}

static const struct http_page PAGES[] = {{"/page", make_page, NULL}};

static struct http_server *open_with(const struct http_feed *feed)
{
    const struct http_server_options options = {"127.0.0.1:0", PAGES, 1, feed};
    struct http_server *server;
    struct error error = {0};
    cr_assert_eq(http_server_open(&options, &server, &error), STATUS_OK, "%s", error.text);
    return server;
}

static struct http_feed feed_of(uint32_t behind_ms)
{
    return (struct http_feed){.path = "/events",
                              .readers_max = READERS_MAX,
                              .interval_ms = 10,
                              .behind_ms = behind_ms,
                              .is_local = true,
                              .make = make_event,
                              .count = count_readers,
                              .arg = &source};
}

static int ask(const struct http_server *server, const char *path, const char *host)
{
    char request[200];
    int n = snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: %s\r\n\r\n", path, host);
    int fd = loopback_connect(AF_INET, http_server_port(server));
    cr_assert_geq(fd, 0);
    cr_assert_eq(send(fd, request, (size_t)n, MSG_NOSIGNAL), n);
    return fd;
}

/* Reads until the text has come; false: the peer closed first. */
static bool reads(int fd, const char *text)
{
    static char seen[TEXT_MAX * 2];
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

static void await_readers(int n)
{
    while (atomic_load(&source.n_readers) != n)
        poll(NULL, 0, 1); /* the test's limit ends it */
}

Test(http_feed, one_event_comes_at_once_and_others_follow, .timeout = 60)
{
    struct http_feed feed = feed_of(1000);
    struct http_server *server = open_with(&feed);
    cr_expect_eq(atomic_load(&source.n_made), 0, "nobody reads");
    int fd = ask(server, "/events", "localhost:9400");
    cr_expect(reads(fd, "Content-Type: text/event-stream\r\n"));
    cr_expect(reads(fd, "\n\ndata: 3 \n\n"));
    close(fd);
    await_readers(0);
    http_server_close(server);
}

Test(http_feed, readers_have_one_event_made_for_all, .timeout = 60)
{
    struct http_feed feed = feed_of(1000);
    struct http_server *server = open_with(&feed);
    int first = ask(server, "/events", "127.0.0.1");
    int second = ask(server, "/events", "[::1]:9400");
    await_readers(2);
    int n_made = atomic_load(&source.n_made);
    char event[32];
    snprintf(event, sizeof event, "data: %d \n\n", n_made + 5);
    cr_expect(reads(first, event));
    cr_expect(reads(second, event), "the same event");
    close(first);
    close(second);
    await_readers(0);
    http_server_close(server);
}

Test(http_feed, a_reader_too_many_is_told_and_others_are_not_ended_by_connections, .timeout = 60)
{
    struct http_feed feed = feed_of(1000);
    struct http_server *server = open_with(&feed);
    int readers[READERS_MAX], idle[HTTP_SERVER_CONNECTIONS_MAX + 1];
    for (int i = 0; i < READERS_MAX; i++)
        readers[i] = ask(server, "/events", "127.0.0.1:1");
    await_readers(READERS_MAX);
    int more = ask(server, "/events", "127.0.0.1:1");
    cr_expect(reads(more, "503 Service Unavailable"));
    close(more);
    for (int i = 0; i <= HTTP_SERVER_CONNECTIONS_MAX; i++)
        idle[i] = loopback_connect(AF_INET, http_server_port(server));
    int page = ask(server, "/page", "x");
    cr_expect(reads(page, "a page"), "pages have places of their own");
    close(page);
    char event[32];
    snprintf(event, sizeof event, "data: %d \n\n", atomic_load(&source.n_made) + 2);
    for (int i = 0; i < READERS_MAX; i++)
        cr_expect(reads(readers[i], event));
    for (int i = 0; i < READERS_MAX; i++)
        close(readers[i]);
    for (int i = 0; i <= HTTP_SERVER_CONNECTIONS_MAX; i++)
        close(idle[i]);
    await_readers(0);
    http_server_close(server);
}

Test(http_feed, a_reader_that_reads_nothing_is_cut_off_and_another_gets_its_events, .timeout = 60)
{
    struct http_feed feed = feed_of(300);
    atomic_store(&source.pad_bytes, TEXT_MAX);
    struct http_server *server = open_with(&feed);
    int slow = ask(server, "/events", "127.0.0.1");
    await_readers(1);
    int quick = ask(server, "/events", "127.0.0.1");
    await_readers(2);
    static char some[65536];
    while (atomic_load(&source.n_readers) == 2)
        cr_assert_gt(recv(quick, some, sizeof some, 0), 0);
    await_readers(1);
    atomic_store(&source.pad_bytes, 0);
    char event[32];
    snprintf(event, sizeof event, "data: %d \n\n", atomic_load(&source.n_made) + 20);
    cr_expect(reads(quick, event), "it goes on");
    while (recv(slow, some, sizeof some, 0) > 0)
        continue;
    close(slow);
    close(quick);
    await_readers(0);
    http_server_close(server);
}

Test(http_feed, a_page_of_another_site_cannot_read_it, .timeout = 60)
{
    struct http_feed feed = feed_of(1000);
    struct http_server *server = open_with(&feed);
    static const char *const names[] = {"evil.example", "localhost.evil.example", "1.evil.example",
                                        "127.0.0.1\r\nHost: evil.example", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int fd = ask(server, "/events", names[i]);
        cr_expect(reads(fd, "421 Misdirected Request"), "%s", names[i]);
        close(fd);
    }
    int page = ask(server, "/page", "any.example");
    cr_expect(reads(page, "Content-Security-Policy: default-src 'none'; script-src 'self'"));
    close(page);
    cr_expect_eq(atomic_load(&source.n_readers), 0);

    http_server_close(server);
    feed.is_local = false;
    server = open_with(&feed);
    int fd = ask(server, "/events", "router.example:9400");
    cr_expect(reads(fd, "data: "), "a port of a network has a name");
    close(fd);
    await_readers(0);
    http_server_close(server);
}

Test(http_feed, a_server_that_closes_ends_its_readers, .timeout = 60)
{
    struct http_feed feed = feed_of(1000);
    struct http_server *server = open_with(&feed);
    int fd = ask(server, "/events", "127.0.0.1");
    await_readers(1);
    http_server_close(server);
    cr_expect_eq(atomic_load(&source.n_readers), 0);
    cr_expect_not(reads(fd, "never"), "its end came");
    close(fd);
}
