#include "base/adapter_id.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORD_DIGITS 16

bool adapter_id_equal(const struct adapter_id *a, const struct adapter_id *b)
{
    return strcmp(a->name, b->name) == 0 && a->digest[0] == b->digest[0] &&
           a->digest[1] == b->digest[1];
}

uint64_t adapter_id_key(const struct adapter_id *id)
{
    static const struct hash_key NO_SECRET = {{0}};
    const struct hash128 digest = {id->digest[0], id->digest[1]};
    if (adapter_id_is_none(id))
        return 0;
    const uint64_t key = hash128_chain(&NO_SECRET, digest, id->name, strlen(id->name)).lo;
    return key ? key : 1;
}

enum status adapter_name_check(const char *name, const char *field, struct error *error)
{
    const size_t n = strlen(name);
    bool is_plain = n >= 1 && n <= ADAPTER_NAME_MAX;
    for (size_t i = 0; is_plain && i < n; i++)
        is_plain = name[i] > ' ' && name[i] < 0x7f && name[i] != '=';
    if (is_plain)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "%s is \"%.80s\", expected a name of 1 to %u printable ASCII characters "
                     "without space and =",
                     field, name, ADAPTER_NAME_MAX);
}

void adapter_digest_format(const uint64_t digest[2], char text_out[ADAPTER_DIGEST_BYTES])
{
    snprintf(text_out, ADAPTER_DIGEST_BYTES, "%016" PRIx64 "%016" PRIx64, digest[0], digest[1]);
}

enum status adapter_id_read(const char *name, const char *digest, const char *field,
                            struct error *error, struct adapter_id *id_out)
{
    struct adapter_id id = {0};
    char word[WORD_DIGITS + 1] = "";
    TRY(adapter_name_check(name, field, error));
    if (strlen(digest) != ADAPTER_DIGEST_BYTES - 1 ||
        strspn(digest, "0123456789abcdef") != ADAPTER_DIGEST_BYTES - 1)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "%s has the digest \"%.40s\", expected 32 hexadecimal digits", field,
                         digest);
    snprintf(id.name, sizeof id.name, "%s", name);
    for (int i = 0; i < 2; i++) {
        memcpy(word, digest + (ptrdiff_t)i * WORD_DIGITS, WORD_DIGITS);
        id.digest[i] = strtoull(word, NULL, 16);
    }
    *id_out = id;
    return STATUS_OK;
}

const struct adapter_id *adapter_ids_find(const struct adapter_id *ids, uint32_t n,
                                          const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(ids[i].name, name) == 0)
            return &ids[i];
    return NULL;
}
