#include "api/openai/openai_pages.h"

#include "api/openai/openai_admission.h"
#include "base/http/http_host.h"

#include <string.h>
#include <strings.h>

#define TELLS "x-request-id, Retry-After, x-should-retry" /* beside what every page may read */

/* What a browser sends for a web page that has a name of its own for this machine. */
static bool is_by_foreign_name(const struct openai_pages *pages, const char *host,
                               struct openai_error *told)
{
    if (!pages->is_closed || !host || http_host_is_one_of(host, strlen(host), pages->hosts))
        return false;
    openai_error_set(told, 403, "foreign_host", NULL,
                     "Host \"%.200s\" is none of this machine: use localhost or an address, or "
                     "put the name into http_hosts",
                     host);
    return true;
}

/* Of the origin the scheme is not compared: a host is this one by http and by https. */
static bool admits(const struct openai_pages *pages, const char *origin, const char *host)
{
    const char *authority = strstr(origin, "://");
    if (!authority) /* "null": one that has no name */
        return false;
    authority += strlen("://");
    const size_t n = strlen(authority);
    return http_host_is_named(authority, n, pages->hosts) ||
           (pages->is_loopback && http_host_is_loopback(authority, n)) ||
           (host && strcasecmp(authority, host) == 0);
}

/* Without memory a field is left out, and the browser does not show the answer. */
static void add(struct http_exchange *exchange, const char *name, const char *value)
{
    enum status status = http_exchange_add_field(exchange, name, value);
    (void)status;
}

/* Whether the browser asks before it sends the page's request. */
static bool is_preflight(const struct http_exchange *exchange)
{
    return http_exchange_verb(exchange) == HTTP_VERB_OPTIONS &&
           http_exchange_field(exchange, "Access-Control-Request-Method");
}

static void answer_preflight(struct http_exchange *exchange)
{
    const struct http_answer_head head = {.code = 204};
    const char *asked = http_exchange_field(exchange, "Access-Control-Request-Headers");
    add(exchange, "Access-Control-Allow-Methods", "GET, HEAD, POST");
    if (asked)
        add(exchange, "Access-Control-Allow-Headers", asked);
    add(exchange, "Access-Control-Max-Age", "600");
    add(exchange, "Vary", "Access-Control-Request-Headers");
    if (http_exchange_reply(exchange, &head, "", 0) == STATUS_QUEUE_FULL)
        http_exchange_cut(exchange);
}

static void refuse_origin(const struct openai_pages *pages, struct http_exchange *exchange,
                          const char *origin)
{
    struct openai_error told;
    if (pages->is_closed)
        openai_error_set(&told, 403, "foreign_origin", NULL,
                         "Origin \"%.200s\" is none of this machine: http_hosts may have its name",
                         origin);
    else
        openai_error_set(
            &told, 403, "foreign_origin", NULL,
            "Origin \"%.200s\" sends no token, and a certificate does not admit a page: "
            "http_hosts may have its name",
            origin);
    openai_refuse(exchange, &told);
}

bool openai_pages_enter(const struct openai_pages *pages, struct http_exchange *exchange)
{
    const char *host = http_exchange_field(exchange, "Host");
    const char *origin = http_exchange_field(exchange, "Origin");
    struct openai_error told;
    add(exchange, "Vary", "Origin"); /* also without one: a cache may have the answer for a page */
    if (is_by_foreign_name(pages, host, &told)) {
        openai_refuse(exchange, &told);
        return false;
    }
    if (!origin)
        return true;
    if (admits(pages, origin, host)) {
        add(exchange, "Access-Control-Allow-Origin", origin);
        add(exchange, "Access-Control-Expose-Headers", TELLS);
        if (!is_preflight(exchange))
            return true;
        answer_preflight(exchange);
        return false;
    }
    if (!pages->is_closed && (!pages->has_certificates || openai_has_token(exchange)))
        return true;
    refuse_origin(pages, exchange, origin);
    return false;
}
