#include "base/base64.h"

#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

/* Characters of padding at the end; the library accepts white space and more of them, which are no base64 here. */
static bool count_padding(const char *text, size_t n_text, size_t *n_padding_out)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t n_padding = 0;

    while (n_padding < 2 && n_padding < n_text && text[n_text - 1 - n_padding] == '=')
        n_padding++;
    *n_padding_out = n_padding;
    for (size_t i = 0; i < n_text - n_padding; i++)
        if (text[i] == '\0' || !strchr(alphabet, text[i]))
            return false;
    return true;
}

bool base64_decode(const char *text, size_t n_text, uint8_t *bytes_out, size_t *n_bytes_out)
{
    size_t n_padding;

    *n_bytes_out = 0;
    if (n_text == 0)
        return true;
    if (n_text % 4 != 0 || n_text >= INT_MAX || !count_padding(text, n_text, &n_padding))
        return false;
    int n_bytes = EVP_DecodeBlock(bytes_out, (const unsigned char *)text, (int)n_text);
    if (n_bytes < 0)
        return false;
    *n_bytes_out = (size_t)n_bytes - n_padding; /* the library counts the zeros of the padding */
    return true;
}

char *base64_encode(const uint8_t *bytes, size_t n_bytes)
{
    if (n_bytes >= INT_MAX / 2)
        return NULL;
    char *text = malloc((n_bytes + 2) / 3 * 4 + 1);
    if (text)
        EVP_EncodeBlock((unsigned char *)text, bytes, (int)n_bytes);
    return text;
}
