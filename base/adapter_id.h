/*
 * adapter_id - what a LoRA adapter is called in requests and between processes: a name, and a digest of what it is.
 *
 * Two adapters with one name and different digests are different ones. Name "": none, the model alone.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define ADAPTER_NAME_MAX     64u /* bytes */
#define ADAPTERS_MAX         64u /* of one worker */
#define ADAPTER_DIGEST_BYTES 33  /* as text: hexadecimal digits and a NUL */

struct adapter_id {
    char name[ADAPTER_NAME_MAX + 1];
    uint64_t digest[2];
};

static inline bool adapter_id_is_none(const struct adapter_id *id)
{
    return id->name[0] == '\0';
}

bool adapter_id_equal(const struct adapter_id *a, const struct adapter_id *b);
/* 64 bits of both, for comparisons; 0: none. */
uint64_t adapter_id_key(const struct adapter_id *id);

/* 1 .. ADAPTER_NAME_MAX printable characters of ASCII without space and =. INVALID_ARGUMENT: a sentence with field and value. */
MUST_CHECK enum status adapter_name_check(const char *name, const char *field, struct error *error);
/* 32 hexadecimal digits, as a model's digest is written. */
void adapter_digest_format(const uint64_t digest[2], char text_out[ADAPTER_DIGEST_BYTES]);
/* INVALID_ARGUMENT: a sentence with field and value. */
MUST_CHECK enum status adapter_id_read(const char *name, const char *digest, const char *field,
                                       struct error *error, struct adapter_id *id_out);
/* Of several the one of that name. NULL: there is none. */
const struct adapter_id *adapter_ids_find(const struct adapter_id *ids, uint32_t n,
                                          const char *name);
