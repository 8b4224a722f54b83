#include "base/secret.h"

#include <openssl/crypto.h>

void secret_wipe(void *secret, size_t bytes)
{
    OPENSSL_cleanse(secret, bytes);
}

bool secret_equal(const void *a, const void *b, size_t bytes)
{
    return CRYPTO_memcmp(a, b, bytes) == 0;
}
