/*
 * job - a request as a generation engine keeps it: checked, and copied into one allocation. Its prompt is
 * hashed where the job is made, so that the engine's thread has only to look.
 *
 * Thread: made on any, then owned by one at a time.
 */
#pragma once

#include "gen_worker/gen_options.h"
#include "gen_worker/gen_request.h"

struct job {
    struct engine_request request; /* the first: what a request_queue knows of it */
    struct request_origin origin;
    char context_worker[GEN_ADDRESS_MAX + 1]; /* "": compute here, */
    enum gen_place why_local;                 /* for this reason */
    bool wants_progress;
    bool ends_when_context_full; /* see gen_request */
    struct sequence *sequence;   /* NULL: it has not been admitted yet */
    /* While it waits: of which prefix_tree_changes the schedule knows what the cache has of it, 0: of none; and
     * how many blocks it would take by that. */
    uint64_t lookup_at;
    uint32_t lookup_blocks;
    struct prefix_hash hashes[]; /* of its prompt's whole blocks; none without a prefix cache */
};

static inline struct job *job_of(struct engine_request *request)
{
    return (struct job *)request;
}

/* INVALID_ARGUMENT, PROMPT_TOO_LONG: error gets a sentence with field, value and limit. NO_MEMORY. */
MUST_CHECK enum status job_create(const struct gen_engine_options *options, void *stream,
                                  const struct gen_request *request, struct error *error,
                                  struct job **job_out);
void job_destroy(struct job *job); /* NULL is fine */
/* Borrows from job: the client's name of the request, or the message's where none came. */
struct log_about job_about(const struct job *job);
