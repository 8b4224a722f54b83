/*
 * adapter_set - the LoRA adapters of a worker, by name.
 *
 * A request holds its adapter until it ends: removing one from the set hides it from later requests. It is freed when it is looked at
 * (each call does so) and no request holds it any more. An adapter may be replaced by another of the same name only by removing it
 * first.
 *
 * Bounds: ADAPTERS_MAX, as many again that were removed and are held, and the bytes of all together (bytes_max).
 * Thread: any; a mutex guards the list. Files are read outside it.
 */
#pragma once

#include "base/adapter_id.h"
#include "engine/engine_request.h"
#include "worker_common/identity_codec.h"

struct adapter_set;
struct model;

struct adapter_set_options {
    const struct model *model; /* borrowed until destroy */
    uint32_t rank_max;         /* 0: any */
    uint64_t bytes_max;        /* of the matrices in memory; 0: any */
};

MUST_CHECK enum status adapter_set_create(const struct adapter_set_options *options,
                                          struct adapter_set **set_out);
/* Those that are added from now on have at most that rank. */
void adapter_set_limit_rank(struct adapter_set *set, uint32_t rank_max);
/* No request holds one. NULL is fine. */
void adapter_set_destroy(struct adapter_set *set);

/* As adapter_load. INVALID_ARGUMENT, too: no name, one that is there with another digest, ADAPTERS_MAX, or no room. One that is there
 * with the same digest stays: OK, if there was room to read it again, which tells that it is the same. */
MUST_CHECK enum status adapter_set_add(struct adapter_set *set, const char *name,
                                       const char *folder, struct error *error,
                                       struct adapter_id *id_out);
/* NOT_FOUND: the sentence has the name. set NULL: there are none. QUEUE_FULL: too many that were removed are still held. */
MUST_CHECK enum status adapter_set_remove(struct adapter_set *set, const char *name,
                                          struct error *error);

/* A hold on the adapter of that name and digest. ADAPTER_MISMATCH: the sentence has name and digests. set NULL: there are none. */
MUST_CHECK enum status adapter_set_find(struct adapter_set *set, const struct adapter_id *id,
                                        struct error *error, struct request_adapter *adapter_out);

/* ids_out [ADAPTERS_MAX]. Returns how many there are. set NULL: none. */
uint32_t adapter_set_list(struct adapter_set *set, struct adapter_id *ids_out);
uint32_t adapter_set_rank(struct adapter_set *set); /* the largest; 0: there are none */
uint32_t adapter_set_count(struct adapter_set *set);
/* Of all that are in memory, with those that were removed and are held. */
uint64_t adapter_set_bytes(struct adapter_set *set);

/* Puts the list into an identity that is to be sent. */
void adapter_set_describe(struct adapter_set *set, struct identity_message *message);
/* Logs each adapter that the other worker has under the same name with another digest, with both. theirs may be NULL. */
void adapter_set_compare(struct adapter_set *set,
                         const Kvferry__Internal__V1__WorkerIdentity *theirs);
