/* http_port: a doorkeeper judges by the head, before a body is read, and is told of the end of what it let in; errors have the
 * door's own form. */

#include "tests/api/support/http_bed.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST  "Host: x\r\n"
#define CLOSE "Connection: close\r\n"

static atomic_uint n_entered, n_left, n_destroyed;

static bool enter(void *arg, struct http_exchange *exchange, void **pass_out)
{
    const char *word = http_exchange_field(exchange, "Authorization");
    size_t n;
    cr_expect_eq(http_exchange_add_field(exchange, "x-request-id", "id-1\r\n2"), STATUS_OK);
    (void)http_exchange_body(exchange, &n);
    cr_expect_eq(n, 0, "the body has not come");
    if (!word || strcmp(word, "Bearer secret") != 0) {
        http_exchange_refuse(exchange, 401, 0, "no valid credentials");
        return false;
    }
    cr_expect_eq(http_exchange_count_fields(exchange, "authorization"), 1);
    atomic_fetch_add(&n_entered, 1);
    *pass_out = arg;
    return true;
}

static void leave(void *arg, void *pass)
{
    cr_expect_eq(arg, pass);
    atomic_fetch_add(&n_left, 1);
}

static void destroy(void *arg, void *pass)
{
    cr_expect_eq(arg, pass);
    atomic_fetch_add(&n_destroyed, 1);
}

static size_t write_json(void *arg, unsigned code, const char *sentence,
                         char body_out[HTTP_ERROR_BYTES_MAX])
{
    (void)arg;
    return (size_t)snprintf(body_out, HTTP_ERROR_BYTES_MAX,
                            "{\"code\": %u, \"message\": \"%.200s\"}", code, sentence);
}

static char the_pass;
static const struct http_doorkeeper DOORKEEPER = {&the_pass, enter, leave, destroy};
static const struct http_error_form FORM = {NULL, "application/json", write_json, NULL};

static void start(void)
{
    http_bed_prepare();
    http_bed.options.doorkeeper = &DOORKEEPER;
    http_bed.options.error_form = &FORM;
    http_bed_start();
}

static void stop(void)
{
    http_bed_stop();
    cr_expect_eq(atomic_load(&n_left), atomic_load(&n_entered));
    cr_expect_eq(atomic_load(&n_destroyed), atomic_load(&n_entered));
}

TestSuite(http_doorkeeper, .init = start, .fini = stop, .timeout = 120);

#define KEY "Authorization: Bearer secret\r\n"

Test(http_doorkeeper, who_may_not_enter_hears_it_before_the_body)
{
    http_bed_expect("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\n", 401,
                    "{\"code\": 401, \"message\": \"no valid credentials\"}");
    http_bed_expect("POST /echo HTTP/1.1\r\n" HOST
                    "Content-Length: 4\r\nExpect: 100-continue\r\n\r\n",
                    401, "Connection: close\r\n");
    http_bed_expect("POST /echo HTTP/1.1\r\n" HOST KEY CLOSE "Content-Length: 4\r\n\r\nbody", 200,
                    "body");
    cr_expect_eq(http_bed_n_calls(), 1);
}

Test(http_doorkeeper, a_request_without_a_body_that_is_refused_keeps_its_connection)
{
    int fd = http_bed_connect(1);
    http_bed_say(fd, "GET /hello HTTP/1.1\r\n" HOST "\r\n");
    free(http_bed_hear_until(fd, "credentials\"}"));
    http_bed_say(fd, "GET /hello HTTP/1.1\r\n" HOST KEY "\r\n");
    free(http_bed_hear_until(fd, "\r\n\r\nhello"));
    close(fd);
}

Test(http_doorkeeper, is_told_of_each_end)
{
    int half = http_bed_connect(1), held = http_bed_connect(1);
    http_bed_say(half, "POST /echo HTTP/1.1\r\n" HOST KEY "Content-Length: 1000\r\n\r\nhalf");
    while (atomic_load(&n_entered) < 1)
        (void)poll(NULL, 0, 1);
    close(half);
    while (atomic_load(&n_left) < 1)
        (void)poll(NULL, 0, 1);
    http_bed_say(held, "GET /hold HTTP/1.1\r\n" HOST KEY "\r\n");
    struct http_exchange *exchange = http_bed_held(0);
    cr_expect_eq(http_exchange_pass(exchange), &the_pass);
    close(held);
    http_bed_wait_ends(1);
    cr_expect_eq(atomic_load(&n_left), 2);
    cr_expect_eq(atomic_load(&n_destroyed), 1, "somebody holds the other one");
}

Test(http_doorkeeper, errors_of_every_kind_have_the_form)
{
    http_bed_expect("nonsense\r\n\r\n", 400, "{\"code\": 400");
    http_bed_expect("GET /nowhere HTTP/1.1\r\n" HOST CLOSE "\r\n", 401, "{\"code\": 401");
    http_bed_expect("GET /nowhere HTTP/1.1\r\n" HOST KEY CLOSE "\r\n", 404, "{\"code\": 404");
    http_bed_expect("GET /nowhere HTTP/1.1\r\n" HOST KEY CLOSE "\r\n", 404,
                    "Content-Type: application/json\r\n");
    http_bed_expect("GET /forget HTTP/1.1\r\n" HOST KEY CLOSE "\r\n", 500, "{\"code\": 500");
}

Test(http_doorkeeper, its_fields_are_in_every_answer)
{
    static const char *const REQUESTS[] = {
        "GET /hello HTTP/1.1\r\n" HOST CLOSE "\r\n",
        "GET /hello HTTP/1.1\r\n" HOST KEY CLOSE "\r\n",
        "GET /nowhere HTTP/1.1\r\n" HOST KEY CLOSE "\r\n",
        "PUT /hello HTTP/1.1\r\n" HOST KEY CLOSE "\r\n",
        "GET /forget HTTP/1.1\r\n" HOST KEY CLOSE "\r\n",
    };
    for (size_t i = 0; i < sizeof REQUESTS / sizeof *REQUESTS; i++) {
        int fd = http_bed_connect(1);
        http_bed_say(fd, REQUESTS[i]);
        free(http_bed_hear_until(fd, "\r\nx-request-id: id-1??2\r\n"));
        close(fd);
    }
}
