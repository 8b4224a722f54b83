#include "rpc/auth/sealed_secret.h"

#include "base/random.h"
#include "base/secret.h"
#include "base/sha256.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { BOUND_MAX = 128 };

static const char LABEL[] = "kvferry seal 1\n";

static int bind_text(const struct seal_terms *terms, uint8_t bound_out[BOUND_MAX])
{
    int n = snprintf((char *)bound_out, BOUND_MAX, "%s\n%s\n%016" PRIx64 "\n%016" PRIx64 "\n",
                     terms->field, terms->role, terms->sender, terms->receiver);
    assert(n > 0 && n < BOUND_MAX);
    return n;
}

static enum status key_of(const uint8_t cluster[CLUSTER_KEY_BYTES], struct sha256 *key_out)
{
    return sha256_mac(cluster, CLUSTER_KEY_BYTES, LABEL, sizeof LABEL - 1, key_out);
}

/* ---- sealing ---- */

static bool encrypt(EVP_CIPHER_CTX *cipher, const struct sha256 *key,
                    const struct seal_terms *terms, const uint8_t *secret, int bytes,
                    uint8_t *sealed)
{
    uint8_t bound[BOUND_MAX], *text = sealed + SEAL_NONCE_BYTES;
    int n_bound = bind_text(terms, bound), n;
    return EVP_EncryptInit_ex2(cipher, EVP_aes_256_gcm(), key->bytes, sealed, NULL) == 1 &&
           EVP_EncryptUpdate(cipher, NULL, &n, bound, n_bound) == 1 &&
           EVP_EncryptUpdate(cipher, text, &n, secret, bytes) == 1 && n == bytes &&
           EVP_EncryptFinal_ex(cipher, text + bytes, &n) == 1 &&
           EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_GET_TAG, SEAL_TAG_BYTES, text + bytes) == 1;
}

static enum status seal_with(const uint8_t cluster[CLUSTER_KEY_BYTES],
                             const struct seal_terms *terms, const uint8_t *secret, size_t bytes,
                             uint8_t *sealed_out)
{
    struct sha256 key;
    TRY(random_secret(sealed_out, SEAL_NONCE_BYTES, NULL));
    TRY(key_of(cluster, &key));
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    bool is_done = cipher && encrypt(cipher, &key, terms, secret, (int)bytes, sealed_out);
    EVP_CIPHER_CTX_free(cipher);
    secret_wipe(&key, sizeof key);
    return is_done ? STATUS_OK : STATUS_IO_FAILED;
}

enum status sealed_secret_make(struct cluster_key *key, const struct seal_terms *terms,
                               const uint8_t *secret, size_t bytes, uint8_t *sealed_out)
{
    struct key_set keys;
    assert(bytes <= INT_MAX);
    cluster_key_get(key, &keys);
    assert(keys.n > 0);
    enum status status = seal_with(keys.keys[0], terms, secret, bytes, sealed_out);
    key_set_wipe(&keys);
    return status;
}

/* ---- opening ---- */

static bool decrypt(EVP_CIPHER_CTX *cipher, const struct sha256 *key,
                    const struct seal_terms *terms, const uint8_t *sealed, int bytes,
                    uint8_t *secret)
{
    uint8_t bound[BOUND_MAX], tag[SEAL_TAG_BYTES];
    const uint8_t *text = sealed + SEAL_NONCE_BYTES;
    int n_bound = bind_text(terms, bound), n;
    memcpy(tag, text + bytes, sizeof tag);
    return EVP_DecryptInit_ex2(cipher, EVP_aes_256_gcm(), key->bytes, sealed, NULL) == 1 &&
           EVP_DecryptUpdate(cipher, NULL, &n, bound, n_bound) == 1 &&
           EVP_DecryptUpdate(cipher, secret, &n, text, bytes) == 1 && n == bytes &&
           EVP_CIPHER_CTX_ctrl(cipher, EVP_CTRL_AEAD_SET_TAG, SEAL_TAG_BYTES, tag) == 1 &&
           EVP_DecryptFinal_ex(cipher, secret + bytes, &n) == 1;
}

static enum status open_with(const uint8_t cluster[CLUSTER_KEY_BYTES],
                             const struct seal_terms *terms, const uint8_t *sealed, size_t bytes,
                             uint8_t *secret)
{
    struct sha256 key;
    TRY(key_of(cluster, &key));
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    bool is_open = cipher && decrypt(cipher, &key, terms, sealed, (int)bytes, secret);
    EVP_CIPHER_CTX_free(cipher);
    secret_wipe(&key, sizeof key);
    if (is_open)
        return STATUS_OK;
    secret_wipe(secret, bytes); /* it was decrypted before the tag was checked */
    return cipher ? STATUS_UNAUTHENTICATED : STATUS_NO_MEMORY;
}

enum status sealed_secret_open(struct cluster_key *key, const struct seal_terms *terms,
                               const uint8_t *sealed, size_t bytes, uint8_t *secret_out)
{
    struct key_set keys;
    if (bytes < SEAL_BYTES || bytes > INT_MAX)
        return STATUS_UNAUTHENTICATED;
    cluster_key_get(key, &keys);
    enum status status = STATUS_UNAUTHENTICATED;
    for (uint32_t i = 0; i < keys.n && status == STATUS_UNAUTHENTICATED; i++)
        status = open_with(keys.keys[i], terms, sealed, bytes - SEAL_BYTES, secret_out);
    key_set_wipe(&keys);
    return status;
}
