/*
 * openai_pages - which web pages may use the HTTP port, as far as browsers tell (Host and Origin), and what tells browsers so (CORS).
 *
 * A page is admitted if its origin is one of http_hosts, or on a loopback port this machine, or the very host that is asked. On a
 * loopback port without tokens all others are refused, and where clients show certificates those without a token: a browser shows its
 * certificate whichever page asks. Else they get an answer that their browsers do not show them.
 *
 * Thread: the port's.
 */
#pragma once

#include "api/http/http_exchange.h"

#include <stdbool.h>

struct openai_pages {
    const char *hosts;     /* http_hosts */
    bool is_loopback;      /* the port */
    bool is_closed;        /* such a port that everybody may use: not the pages of others */
    bool has_certificates; /* its clients show some (tls_client_ca) */
};

/* False: it has answered, a page that may not or a browser's question whether one may (a preflight). Else an admitted origin is
 * told so in the answer to come. */
bool openai_pages_enter(const struct openai_pages *pages, struct http_exchange *exchange);
