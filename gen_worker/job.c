#include "gen_worker/job.h"

#include "model/kernel_choice.h"
#include "model/sampling/beam_search.h"

#include <assert.h>
#include <string.h>

/* A beam search needs copies of sequences, and whole rows. */
static const char *beams_go_without(const struct gen_engine_options *options)
{
    if (options->kv_manager == KV_MANAGER_CONTIGUOUS)
        return "kv_manager contiguous";
    if (options->geometry.groups.n_state > 0)
        return "layers of recurrent state";
    if (options->geometry.sinks.window > 0)
        return "sink_tokens";
    return kernel_choice_is_own(options->device) ? device_name(options->device) : NULL;
}

static enum status check_beams(const struct gen_engine_options *options,
                               const struct sampling_params *sampling, struct error *error)
{
    const struct beam_params *beams = &sampling->beams;
    uint32_t ends[BEAM_ENDS_MAX];
    if (!beam_params_search(beams))
        return STATUS_OK;
    const char *without = beams_go_without(options);
    const uint32_t n_ends = beam_search_ends(sampling, options->eos_ids, options->n_eos_ids, ends);
    if (without)
        return error_set(error, STATUS_UNSUPPORTED,
                         "sampling.beam_width is %u: there is no beam search with %s",
                         beams->n_beams, without);
    if (beams->n_beams > options->sequences_max)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sampling.beam_width is %u; this worker has sequences_max %u",
                         beams->n_beams, options->sequences_max);
    if (beam_params_rank_count(beams, n_ends) > RANKED_ROW_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sampling.beam_width is %u, and %u tokens end a reply: the product of "
                         "it and one more than these may be %u",
                         beams->n_beams, n_ends, RANKED_ROW_MAX);
    return STATUS_OK;
}

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
    TRY(check_beams(options, input->sampling, error));
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

static enum status make_search(const struct gen_engine_options *options, struct job *job)
{
    const struct sampling_params *sampling = &job->request.sampling;
    uint32_t ends[BEAM_ENDS_MAX];
    if (!beam_params_search(&sampling->beams))
        return STATUS_OK;
    const struct beam_search_options search = {
        .params = sampling->beams,
        .max_tokens = sampling->max_tokens,
        .end_ids = ends,
        .n_ends = beam_search_ends(sampling, options->eos_ids, options->n_eos_ids, ends),
        .stops = sampling->rules ? &sampling->rules->stops : NULL,
        .min_tokens = sampling->min_tokens};
    job->request.needs_tokenizer = search.stops && search.stops->n > 0;
    return beam_search_create(&search, &job->search);
}

static void finish(struct engine_request *request)
{
    beam_search_destroy(job_of(request)->search);
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
    made->finish = finish;
    const enum status status = make_search(options, job);
    if (status != STATUS_OK) {
        job_destroy(job);
        return status;
    }
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
