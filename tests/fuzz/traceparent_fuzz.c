/* traceparent - whatever a client sends as one is refused whole, or is read as what stands there: its text, and
 * written again the same but for version, unknown flags and what follows them.
 *
 *     input: the value
 */
#include "base/trace_context.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void check(bool is_so)
{
    if (!is_so)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    char *value = malloc(n_bytes ? n_bytes : 1); /* so that the sanitizer sees its end */
    if (!value)
        return 0;
    if (n_bytes > 0)
        memcpy(value, bytes, n_bytes);
    struct trace_context context = {.is_sampled = false};
    char text[TRACEPARENT_BYTES + 1];
    bool is_taken = traceparent_parse(value, n_bytes, &context);
    check(is_taken == trace_context_is_some(&context));
    if (is_taken) {
        traceparent_format(&context, text);
        check(memcmp(text + 2, value + 2, TRACEPARENT_BYTES - 4) == 0);
        check(memcmp(value, "ff", 2) != 0);
        check(n_bytes == TRACEPARENT_BYTES ||
              (memcmp(value, "00", 2) != 0 && value[TRACEPARENT_BYTES] == '-'));
        check(strspn(text, "0123456789abcdef-") == TRACEPARENT_BYTES);
    }
    free(value);
    return 0;
}
