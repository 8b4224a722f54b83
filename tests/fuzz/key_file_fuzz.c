/* key_file - any bytes are refused, or are one or two different keys, each in the one form that is written. */
#include "rpc/auth/key_file.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

static void check(const char *text, size_t n_bytes, const struct key_set *keys)
{
    char again[CLUSTER_KEYS_MAX * KEY_LINE_BYTES];
    size_t n = 0;
    for (uint32_t i = 0; i < keys->n; i++) {
        struct key_set one = {.n = 1};
        memcpy(one.keys[0], keys->keys[i], CLUSTER_KEY_BYTES);
        key_line_format(&one, again + n);
        n += strlen(again + n);
    }
    if (keys->n < 1 || keys->n > CLUSTER_KEYS_MAX || (n_bytes != n && n_bytes != n - 1) ||
        memcmp(text, again, n_bytes) != 0)
        abort();
    if (keys->n == 2 && memcmp(keys->keys[0], keys->keys[1], CLUSTER_KEY_BYTES) == 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    struct key_set keys;
    struct error error;
    char *text = malloc(n_bytes ? n_bytes : 1); /* so that the sanitizer sees its end */
    if (!text)
        return 0;
    memcpy(text, bytes, n_bytes);
    if (key_file_parse(text, n_bytes, "fuzz", &keys, &error) == STATUS_OK)
        check(text, n_bytes, &keys);
    free(text);
    return 0;
}
