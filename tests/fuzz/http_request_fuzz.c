/* http_request_fuzz - any bytes are refused, or have a method and a path that ends within its room. No other byte than those
 * of the head is read for its Host. */
#include "base/http/http_request.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    struct http_request request;
    char *head = malloc(n_bytes ? n_bytes : 1); /* so that the sanitizer sees its end */
    if (!head)
        return 0;
    memcpy(head, bytes, n_bytes);
    if (http_request_parse(head, n_bytes, &request) &&
        (request.method > HTTP_OTHER || !memchr(request.path, '\0', sizeof request.path) ||
         (request.path[0] != '/' && request.path[0] != '\0')))
        abort();
    free(head);
    return 0;
}
