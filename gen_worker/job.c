#include "gen_worker/job.h"

#include "worker/request_number.h"

#include <stdlib.h>
#include <string.h>

static enum status check_text(const char *field, const char *text, size_t bytes_min,
                              size_t bytes_max, struct error *error)
{
    size_t bytes = text ? strnlen(text, bytes_max + 1) : 0;
    if (bytes < bytes_min || bytes > bytes_max)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s has %zu bytes, wanted %zu to %zu",
                         field, bytes, bytes_min, bytes_max);
    return STATUS_OK;
}

static enum status check_tokens(const struct gen_engine_options *options,
                                const struct gen_request *request, struct error *error)
{
    if (request->n_tokens == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "token_ids is empty");
    uint64_t n_tokens = (uint64_t)request->n_tokens + request->sampling->max_tokens;
    if (n_tokens > options->context_tokens)
        return error_set(error, STATUS_PROMPT_TOO_LONG,
                         "%u prompt tokens and max_tokens %u, the context holds %u",
                         request->n_tokens, request->sampling->max_tokens, options->context_tokens);
    for (uint32_t i = 0; i < request->n_tokens; i++)
        if (request->token_ids[i] >= options->vocabulary)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "token_ids[%u] is %u, the vocabulary has %u", i, request->token_ids[i],
                             options->vocabulary);
    return STATUS_OK;
}

static enum status check(const struct gen_engine_options *options,
                         const struct gen_request *request, struct error *error)
{
    TRY(check_text("request_id", request->request_id, 1, GEN_REQUEST_ID_MAX, error));
    TRY(check_text("context_worker", request->context_worker, 0, GEN_ADDRESS_MAX, error));
    if (request->salt_bytes > GEN_SALT_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "cache_salt has %zu bytes, at most %u",
                         request->salt_bytes, GEN_SALT_MAX);
    TRY(sampling_check(request->sampling, options->vocabulary, error));
    return check_tokens(options, request, error);
}

enum status job_create(const struct gen_engine_options *options, void *stream,
                       const struct gen_request *request, struct error *error, struct job **job_out)
{
    TRY(check(options, request, error));

    size_t token_bytes = request->n_tokens * sizeof request->token_ids[0];
    struct job *job = calloc(1, sizeof *job + token_bytes);
    if (!job)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a prompt of %u tokens",
                         request->n_tokens);

    job->stream = stream;
    memcpy(job->request_id, request->request_id, strlen(request->request_id) + 1);
    if (request->origin)
        job->origin = *request->origin;
    job->request_number = request_number(job_about(job).request_id);
    if (request->context_worker)
        memcpy(job->context_worker, request->context_worker, strlen(request->context_worker) + 1);
    job->why_local = request->why_local ? request->why_local : GEN_PLACE_NO_CONTEXT_WORKER;
    job->sampling = *request->sampling;
    job->salt_bytes = request->salt_bytes;
    if (request->salt_bytes > 0)
        memcpy(job->salt, request->salt, request->salt_bytes);
    job->deadline_ns = request->deadline_ns;
    job->n_tokens = request->n_tokens;
    memcpy(job->token_ids, request->token_ids, token_bytes);
    *job_out = job;
    return STATUS_OK;
}

struct log_about job_about(const struct job *job)
{
    struct log_about about = log_about_origin(&job->origin);
    if (!job->origin.request_id[0])
        about.request_id = job->request_id;
    return about;
}

void job_destroy(struct job *job)
{
    free(job);
}
