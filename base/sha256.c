#include "base/sha256.h"

#include "base/hex.h"
#include "base/secret.h"

#include <assert.h>
#include <ctype.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

void sha256_begin(struct sha256_sum *sum_out)
{
    sum_out->context = EVP_MD_CTX_new();
    if (sum_out->context && EVP_DigestInit_ex(sum_out->context, EVP_sha256(), NULL) == 1)
        return;
    EVP_MD_CTX_free(sum_out->context);
    sum_out->context = NULL;
}

void sha256_add(struct sha256_sum *sum, const void *data, size_t bytes)
{
    assert(data || bytes == 0);
    if (!sum->context || EVP_DigestUpdate(sum->context, data, bytes) == 1)
        return;
    EVP_MD_CTX_free(sum->context);
    sum->context = NULL;
}

enum status sha256_end(struct sha256_sum *sum, struct sha256 *hash_out)
{
    struct sha256 hash;
    bool is_done = sum->context && EVP_DigestFinal_ex(sum->context, hash.bytes, NULL) == 1;
    EVP_MD_CTX_free(sum->context);
    sum->context = NULL;
    if (!is_done)
        return STATUS_IO_FAILED;
    *hash_out = hash;
    return STATUS_OK;
}

enum status sha256_of(const void *data, size_t bytes, struct sha256 *hash_out)
{
    struct sha256_sum sum;
    sha256_begin(&sum);
    sha256_add(&sum, data, bytes);
    return sha256_end(&sum, hash_out);
}

enum status sha256_mac(const void *key, size_t key_bytes, const void *data, size_t bytes,
                       struct sha256 *mac_out)
{
    struct sha256 mac;
    if (key_bytes > INT_MAX ||
        !HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, mac.bytes, NULL))
        return STATUS_IO_FAILED;
    *mac_out = mac;
    return STATUS_OK;
}

bool sha256_equal(const struct sha256 *a, const struct sha256 *b)
{
    return secret_equal(a->bytes, b->bytes, SHA256_BYTES);
}

void sha256_format(const struct sha256 *hash, char text_out[SHA256_TEXT])
{
    hex_format(hash->bytes, SHA256_BYTES, text_out);
}

enum status sha256_parse(const char *text, size_t length, struct sha256 *hash_out)
{
    char small[2 * SHA256_BYTES];
    struct sha256 hash;
    if (length != sizeof small)
        return STATUS_CORRUPT;
    for (size_t i = 0; i < sizeof small; i++)
        small[i] = (char)tolower((unsigned char)text[i]);
    if (!hex_parse(small, sizeof small, hash.bytes, SHA256_BYTES))
        return STATUS_CORRUPT;
    *hash_out = hash;
    return STATUS_OK;
}
