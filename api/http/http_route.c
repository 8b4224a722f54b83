#include "api/http/http_route.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static bool fits(const struct http_route *route, const char *path, const char **rest_out)
{
    size_t n = strlen(route->path);
    assert(n > 0);
    bool is_prefix = n > 1 && route->path[n - 1] == '/';
    if (strncmp(path, route->path, n) != 0 || (is_prefix ? path[n] == '\0' : path[n] != '\0'))
        return false;
    *rest_out = path + n;
    return true;
}

static bool takes(const struct http_route *route, enum http_verb verb)
{
    unsigned verbs = route->verbs | (route->verbs & HTTP_VERB_GET ? HTTP_VERB_HEAD : 0);
    return verbs & verb;
}

const struct http_route *http_route_find(const struct http_route *routes, size_t n_routes,
                                         enum http_verb verb, const char *path,
                                         const char **rest_out, unsigned *verbs_out)
{
    bool is_any = strcmp(path, "*") == 0;
    *verbs_out = 0;
    for (size_t i = 0; i < n_routes; i++) {
        const char *rest;
        if (!is_any && !fits(&routes[i], path, &rest))
            continue;
        *verbs_out |= routes[i].verbs;
        if (!is_any && takes(&routes[i], verb)) {
            *rest_out = rest;
            return &routes[i];
        }
    }
    return NULL;
}

void http_route_list_verbs(unsigned verbs, char list_out[HTTP_ALLOW_BYTES])
{
    snprintf(list_out, HTTP_ALLOW_BYTES, "%s%sOPTIONS", verbs & HTTP_VERB_GET ? "GET, HEAD, " : "",
             verbs & HTTP_VERB_POST ? "POST, " : "");
}
