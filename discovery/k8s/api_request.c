#include "discovery/k8s/api_request.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* As a value of a query. The caller frees; NULL: no memory. */
static char *escape(const char *text)
{
    static const char PLAIN[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789-._~";
    static const char DIGITS[] = "0123456789ABCDEF";
    char *escaped = malloc(3 * strlen(text) + 1);
    char *at = escaped;
    if (!escaped)
        return NULL;
    for (; *text; text++) {
        if (strchr(PLAIN, *text)) {
            *at++ = *text;
            continue;
        }
        *at++ = '%';
        *at++ = DIGITS[(unsigned char)*text >> 4];
        *at++ = DIGITS[(unsigned char)*text & 15];
    }
    *at = '\0';
    return escaped;
}

static int write_query(const struct api_request *request, const char *escaped, char **query_out)
{
    if (request->version)
        return asprintf(query_out,
                        "watch=true&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=%s",
                        request->watch_s, escaped);
    return asprintf(query_out, "limit=%u%s%s", request->limit, *escaped ? "&continue=" : "",
                    escaped);
}

static int write_head(const struct api_request *request, const char *query, char **text_out)
{
    bool is_v6 = strchr(request->host, ':');
    return asprintf(text_out,
                    "GET /apis/discovery.k8s.io/v1/namespaces/%s/endpointslices"
                    "?labelSelector=kubernetes.io%%2Fservice-name%%3D%s&%s HTTP/1.1\r\n"
                    "Host: %s%s%s:%u\r\n"
                    "Authorization: Bearer %s\r\n"
                    "Accept: application/json\r\n"
                    "User-Agent: kvferry\r\n"
                    "Connection: close\r\n\r\n",
                    request->name_space, request->service, query, is_v6 ? "[" : "", request->host,
                    is_v6 ? "]" : "", request->port, request->token);
}

enum status api_request_write(const struct api_request *request, char **text_out, size_t *bytes_out)
{
    char *query = NULL;
    char *escaped = escape(request->version ? request->version : request->more);
    int n = escaped ? write_query(request, escaped, &query) : -1;
    if (n >= 0) {
        n = write_head(request, query, text_out);
        free(query);
    }
    free(escaped);
    if (n < 0)
        return STATUS_NO_MEMORY;
    *bytes_out = (size_t)n;
    return STATUS_OK;
}
