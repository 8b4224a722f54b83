/* openai_pages: pages of others are refused where they could use what is not theirs; each answer says that it is for an origin, and
 * each refusal under which id. */
#include "api/openai/openai_error.h"
#include "api/openai/openai_pages.h"
#include "tests/api/support/http_bed.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOREIGN "Origin: https://evil.example\r\n"
#define VARY    "\r\nVary: Origin\r\n"

static struct openai_pages pages;

static bool enter(void *arg, struct http_exchange *exchange, void **pass_out)
{
    (void)arg, (void)pass_out;
    return openai_pages_enter(&pages, exchange);
}

static const struct http_doorkeeper DOORKEEPER = {.enter = enter};

static void prepare(void)
{
    http_bed_prepare();
    http_bed.options.doorkeeper = &DOORKEEPER;
    http_bed.options.error_form = &openai_error_form;
    pages = (struct openai_pages){.hosts = "mine.example", .is_loopback = true, .is_closed = true};
}

TestSuite(openai_pages, .init = prepare, .fini = http_bed_stop, .timeout = 60);

/* With those fields. */
static char *ask(const char *fields)
{
    char text[512];
    snprintf(text, sizeof text,
             "GET /hello HTTP/1.1\r\nHost: mine.example\r\nConnection: close\r\n%s\r\n", fields);
    return http_bed_ask(text);
}

static void expect(const char *fields, const char *begin, const char *part)
{
    char *heard = ask(fields);
    cr_expect_eq(strncmp(heard, begin, strlen(begin)), 0, "%s: %s", fields, heard);
    cr_expect(strstr(heard, part), "%s: %s", fields, heard);
    cr_expect(strstr(heard, VARY), "%s: %s", fields, heard);
    free(heard);
}

Test(openai_pages, each_answer_varies_by_the_origin)
{
    http_bed_start();
    expect("", "HTTP/1.1 200", "\r\n\r\nhello");
    expect("Origin: http://mine.example\r\n", "HTTP/1.1 200",
           "Access-Control-Allow-Origin: http://mine.example\r\n");
    expect(FOREIGN, "HTTP/1.1 403", "foreign_origin");
    pages.is_closed = false;
    char *heard = ask(FOREIGN);
    cr_expect(strstr(heard, "hello") && strstr(heard, VARY));
    cr_expect(!strstr(heard, "Access-Control"), "its browser shows it nothing");
    free(heard);
}

Test(openai_pages, a_refusal_has_the_id_of_the_request_or_a_drawn_one)
{
    static const char *const FOREIGN_ONES[] = {FOREIGN, "Origin: null\r\n"};
    http_bed_start();
    for (size_t i = 0; i < sizeof FOREIGN_ONES / sizeof *FOREIGN_ONES; i++) {
        char fields[256];
        snprintf(fields, sizeof fields, "%sx-request-id: mine\r\n", FOREIGN_ONES[i]);
        expect(fields, "HTTP/1.1 403", "\r\nx-request-id: mine\r\n");
        expect(FOREIGN_ONES[i], "HTTP/1.1 403", "\r\nx-request-id: ");
    }
    http_bed_expect("GET /hello HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n"
                    "x-request-id: mine\r\n\r\n",
                    403, "\r\nx-request-id: mine\r\n");
}

Test(openai_pages, a_preflight_says_what_a_page_may)
{
    http_bed_start();
    http_bed_expect("OPTIONS /hello HTTP/1.1\r\nHost: mine.example\r\nConnection: close\r\n"
                    "Origin: http://mine.example\r\nAccess-Control-Request-Method: GET\r\n"
                    "Access-Control-Request-Headers: authorization\r\n\r\n",
                    204, "Access-Control-Allow-Headers: authorization\r\n");
}

Test(openai_pages, with_certificates_those_of_others_need_a_token)
{
    pages.is_closed = pages.is_loopback = false;
    pages.has_certificates = true;
    http_bed_start();
    expect(FOREIGN, "HTTP/1.1 403", "sends no token");
    expect(FOREIGN "Authorization: Basic YTpi\r\n", "HTTP/1.1 403", "sends no token");
    expect(FOREIGN "Authorization: Bearer secret\r\n", "HTTP/1.1 200", "\r\n\r\nhello");
    expect("Origin: https://mine.example\r\n", "HTTP/1.1 200", "\r\n\r\nhello");
    expect("", "HTTP/1.1 200", "\r\n\r\nhello");
}
