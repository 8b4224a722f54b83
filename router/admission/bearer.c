#include "router/admission/bearer.h"

#include <strings.h>

#define SCHEME "bearer "

const char *bearer_token(const char *value, size_t bytes, size_t *bytes_out)
{
    const size_t n_scheme = sizeof SCHEME - 1;
    if (bytes <= n_scheme || bytes > n_scheme + BEARER_TOKEN_MAX ||
        strncasecmp(value, SCHEME, n_scheme) != 0)
        return NULL;
    *bytes_out = bytes - n_scheme;
    return value + n_scheme;
}
