/*
 * job - a request in a generation engine: checked, and copied into one allocation. The thread that makes a job hashes its
 * prompt, so the engine's thread only looks it up.
 *
 * Thread: any makes it; then it has one owner at a time.
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
    struct beam_search *search;  /* owned; NULL: it asks for none */
    struct sequence *sequence;   /* NULL: it waits for its first admission */
    /* While it waits: the prefix_tree_changes of its last look-up in the prefix cache (0: there was none), and the blocks that it
     * takes by that. */
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
/* Borrows from job: the request id of the client, or that of the message where there is none. */
struct log_about job_about(const struct job *job);
