/*
 * geometry_codec - encodes what two workers must agree on before a KV transfer, the geometry and
 * the transport's driver, and checks that they agree.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/geometry.h"
#include "proto/kvferry/v1/model.pb-c.h"

#define DIGEST_TEXT_BYTES 33

/* A message with what it points to. */
struct geometry_message {
    Kvferry__V1__Geometry message;
    char digest[DIGEST_TEXT_BYTES], kv_scales[DIGEST_TEXT_BYTES];
    Kvferry__V1__CacheGroup groups[CACHE_GROUPS_MAX];
    Kvferry__V1__CacheGroup *group_pointers[CACHE_GROUPS_MAX];
};

/* The geometry has passed geometry_check. */
void geometry_encode(const struct geometry *geometry, struct geometry_message *message_out);
/* INVALID_ARGUMENT: a field is missing or wrong; the sentence has its name. message may be NULL. */
MUST_CHECK enum status geometry_decode(const Kvferry__V1__Geometry *message,
                                       struct geometry *geometry_out, struct error *error);

void digest_format(const uint64_t digest[2], char text_out[DIGEST_TEXT_BYTES]);

/* One worker of a pair; strings are borrowed. */
struct kv_terms {
    const struct geometry *geometry;
    const char *transport; /* "am-tcp" */
    const char
        *allow_numerics; /* see numerics_fit; this and the next only of the receiving side, ours */
    bool converts;       /* geometry_match_converting */
};

/* Checks that ours can use KV of theirs. GEOMETRY_MISMATCH: the sentence has the first field that
 * differs and both values; the driver is one of the fields. */
MUST_CHECK enum status kv_terms_match(const struct kv_terms *ours, const struct kv_terms *theirs,
                                      struct error *error);
