#include "gen_worker/job.h"

#include "model/kernel_choice.h"

#include <assert.h>
#include <string.h>

static enum status check(const struct gen_engine_options *options,
                         const struct gen_request *request, struct error *error)
{
    const struct engine_request_input *input = &request->input;
    const char *worker = request->context_worker ? request->context_worker : "";
    size_t worker_bytes = strnlen(worker, GEN_ADDRESS_MAX + 1);
    TRY(engine_request_check_text(input, error));
    if (worker_bytes > GEN_ADDRESS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "context_worker has %zu bytes, wanted 0 to %u", worker_bytes,
                         GEN_ADDRESS_MAX);
    TRY(sampling_check(input->sampling, options->vocabulary, error));
    const uint32_t window = input->sampling->reply_window;
    TRY(geometry_check_reply_window(&options->geometry, window, error));
    if (window != 0 && window != options->geometry.sinks.window &&
        kernel_choice_is_own(options->device))
        return error_set(error, STATUS_UNSUPPORTED,
                         "sampling.reply_window is %u: on %s replies have the worker's window, %u",
                         window, device_name(options->device), options->geometry.sinks.window);
    TRY(engine_request_check_line(input, error));
    const uint32_t n_prompt = encoder_line_tokens(&options->line, input->n_tokens);
    uint64_t n_tokens = (uint64_t)n_prompt + input->sampling->max_tokens;
    const uint32_t context = options->context_tokens;
    const uint32_t limit = n_prompt < context
                               ? geometry_sequence_tokens(&options->geometry, context)
                               : context;
    if (n_prompt >= limit || n_tokens > limit)
        return error_set(error, STATUS_PROMPT_TOO_LONG,
                         "%u prompt tokens and max_tokens %u, %s holds %u", input->n_tokens,
                         input->sampling->max_tokens,
                         limit == context ? "the context" : "a sequence with sinks", limit);
    return engine_request_check_tokens(input, options->vocabulary, error);
}

enum status job_create(const struct gen_engine_options *options, void *stream,
                       const struct gen_request *sent, struct error *error, struct job **job_out)
{
    struct engine_request *made;
    struct gen_request with_line = *sent;
    const struct gen_request *request = &with_line;
    with_line.input.line = &options->line;
    TRY(check(options, request, error));
    uint32_t block_tokens = options->geometry.block_tokens;
    const uint32_t n_prompt = encoder_line_tokens(&options->line, request->input.n_tokens);
    size_t n_hashes = options->prefix_cache ? n_prompt / block_tokens : 0;
    size_t bytes = sizeof(struct job) + n_hashes * sizeof(struct prefix_hash);
    TRY(engine_request_create(bytes, &request->input, stream, error, &made));

    struct job *job = job_of(made);
    assert(&job->request == made && "a request of the queue is the head of a job");
    if (options->prefix_cache)
        engine_request_hash(made, &options->prefix_key, made->token_ids, made->n_tokens,
                            block_tokens, job->hashes);
    if (request->origin)
        job->origin = *request->origin;
    made->request_number = engine_request_number(job_about(job).request_id);
    if (request->context_worker)
        memcpy(job->context_worker, request->context_worker, strlen(request->context_worker));
    job->why_local = request->why_local ? request->why_local : GEN_PLACE_NO_CONTEXT_WORKER;
    job->wants_progress = request->wants_progress;
    job->ends_when_context_full = request->ends_when_context_full;
    *job_out = job;
    return STATUS_OK;
}

struct log_about job_about(const struct job *job)
{
    struct log_about about = log_about_origin(&job->origin);
    if (!job->origin.request_id[0])
        about.request_id = job->request.request_id;
    return about;
}

void job_destroy(struct job *job)
{
    engine_request_destroy(job ? &job->request : NULL);
}
