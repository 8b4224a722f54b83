#include "ctx_worker/prompt.h"

#include "model/kernel_choice.h"
#include "model/sampling/beam_search.h"
#include "sampling_params/ranked_row.h"

#include <assert.h>
#include <inttypes.h>

/* With sinks, of a prompt that drops tokens at once nothing may be held. */
static enum status check_sinks(const struct ctx_engine_options *options,
                               const struct ctx_prefill_request *request, struct error *error)
{
    const struct engine_request_input *input = &request->input;
    const uint32_t window = input->sampling->reply_window;
    TRY(geometry_check_reply_window(&options->geometry, window, error));
    const struct sink_window sinks = sink_window_of(&options->geometry.sinks, window);
    if (request->held_tokens == 0 ||
        sink_window_dropped(&sinks, options->geometry.block_tokens, input->n_tokens) == 0)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "held_tokens is %u of a prompt of %u that is longer than its window with "
                     "sinks, %u: expected 0",
                     request->held_tokens, input->n_tokens, sinks.window);
}

/* Of a beam search. */
static uint32_t n_ranked(const struct ctx_engine_options *options,
                         const struct sampling_params *sampling)
{
    uint32_t ends[BEAM_ENDS_MAX];
    return beam_params_search(&sampling->beams)
               ? beam_params_rank_count(
                     &sampling->beams,
                     beam_search_ends(sampling, options->eos_ids, options->n_eos_ids, ends))
               : 0;
}

static enum status check_beams(const struct ctx_engine_options *options,
                               const struct sampling_params *sampling, struct error *error)
{
    const uint32_t n_beams = sampling->beams.n_beams, n = n_ranked(options, sampling);
    if (n > 0 && kernel_choice_is_own(options->device))
        return error_set(error, STATUS_UNSUPPORTED,
                         "sampling.beam_width is %u: there is no beam search with %s", n_beams,
                         device_name(options->device));
    if (n > RANKED_ROW_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sampling.beam_width is %u: it asks for %u first tokens, at most %u",
                         n_beams, n, RANKED_ROW_MAX);
    return STATUS_OK;
}

static enum status check(const struct ctx_engine_options *options,
                         const struct ctx_prefill_request *request, struct error *error)
{
    const struct engine_request_input *input = &request->input;
    TRY(engine_request_check_text(input, error));
    if (request->callee_incarnation != options->incarnation)
        return error_set(error, STATUS_STALE_PEER,
                         "callee_incarnation is %" PRIx64 ": another run of the worker",
                         request->callee_incarnation);
    const uint32_t n_tokens = encoder_line_tokens(&options->line, input->n_tokens);
    TRY(engine_request_check_line(input, error));
    if (n_tokens > options->context_tokens)
        return error_set(error, STATUS_PROMPT_TOO_LONG, "%u prompt tokens, the context holds %u",
                         input->n_tokens, options->context_tokens);
    TRY(engine_request_check_tokens(input, options->vocabulary, error));
    if (request->held_tokens >= n_tokens ||
        request->held_tokens % options->geometry.block_tokens != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "held_tokens is %u, wanted a multiple of %u under %u",
                         request->held_tokens, options->geometry.block_tokens, n_tokens);
    TRY(sampling_check(input->sampling, options->vocabulary, error));
    TRY(check_beams(options, input->sampling, error));
    return check_sinks(options, request, error);
}

enum status prompt_create(const struct ctx_engine_options *options, void *stream,
                          const struct ctx_prefill_request *sent, struct error *error,
                          struct prompt **prompt_out)
{
    struct engine_request *made;
    struct ctx_prefill_request with_line = *sent;
    const struct ctx_prefill_request *request = &with_line;
    with_line.input.line = &options->line;
    TRY(check(options, request, error));
    TRY(engine_request_create(sizeof(struct prompt), &request->input, stream, error, &made));

    struct prompt *prompt = prompt_of(made);
    assert(&prompt->request == made && "a request of the queue is the head of a prompt");
    assert(request->held_tokens < made->n_tokens);
    prompt->transfer_id = request->transfer_id;
    prompt->caller = request->caller;
    prompt->caller_incarnation = request->caller_incarnation;
    prompt->held_tokens = request->held_tokens;
    prompt->n_ranked = n_ranked(options, &made->sampling);
    prompt->takes_backlog = request->takes_backlog;
    prompt->reader_step_ns = request->reader_step_ns;
    *prompt_out = prompt;
    return STATUS_OK;
}

void prompt_destroy(struct prompt *prompt)
{
    engine_request_destroy(prompt ? &prompt->request : NULL);
}
