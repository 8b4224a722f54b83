#include "worker_common/worker_draft.h"

#include "base/log/log.h"
#include "model/model.h"
#include "tokenizer/tokenizer.h"
#include "worker_common/pool_memory.h"
#include "worker_common/worker_device.h"

#include <assert.h>
#include <string.h>

#define MIB (1 << 20)

static bool is_wanted(const struct worker_options *options)
{
    return options->draft_model && options->draft_model[0];
}

/* ---- tokenizers ---- */

/* "draft_model: " before the sentence. */
static enum status name_it(enum status status, struct error *error)
{
    struct error why = *error;
    if (status != STATUS_OK)
        error_write(error, "draft_model: %s", why.text);
    return status;
}

static enum status compare_tokens(const struct tokenizer *ours, const struct tokenizer *theirs,
                                  struct error *error)
{
    const uint32_t n = tokenizer_n_ids(ours), n_theirs = tokenizer_n_ids(theirs);
    if (n != n_theirs)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "draft_model has a tokenizer of %u tokens, that of the model has %u",
                         n_theirs, n);
    for (uint32_t id = 0; id < n; id++) {
        size_t n_bytes, n_their_bytes;
        const char *bytes = tokenizer_token_bytes(ours, id, &n_bytes);
        const char *their_bytes = tokenizer_token_bytes(theirs, id, &n_their_bytes);
        if (n_bytes != n_their_bytes || memcmp(bytes, their_bytes, n_bytes) != 0)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "draft_model has another tokenizer: its token %u is \"%.*s\", that of "
                             "the model is \"%.*s\"",
                             id, (int)n_their_bytes, their_bytes, (int)n_bytes, bytes);
        if (tokenizer_is_special(ours, id) != tokenizer_is_special(theirs, id))
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "draft_model has another tokenizer: token %u, \"%.*s\", is special in "
                             "one of the two alone",
                             id, (int)n_bytes, bytes);
    }
    return STATUS_OK;
}

static enum status compare_loaded(const struct worker_options *options, struct error *error)
{
    struct tokenizer *ours = NULL, *theirs = NULL;
    enum status status = tokenizer_load(options->folder, error, &ours);
    if (status == STATUS_OK) {
        status = name_it(tokenizer_load(options->draft_model, error, &theirs), error);
        if (status == STATUS_OK)
            status = compare_tokens(ours, theirs, error);
    }
    tokenizer_destroy(theirs);
    tokenizer_destroy(ours);
    return status;
}

/* Their files may differ and say the same. */
static enum status check_tokenizers(const struct worker_options *options, struct error *error)
{
    uint8_t ours[TOKENIZER_DIGEST_BYTES], theirs[TOKENIZER_DIGEST_BYTES];
    enum status status = tokenizer_digest_read(options->folder, error, ours);
    if (status == STATUS_NOT_FOUND)
        return error_set(error, STATUS_UNSUPPORTED,
                         "draft_model is \"%.200s\", and the model has no tokenizer to compare its "
                         "with",
                         options->draft_model);
    TRY(status);
    status = tokenizer_digest_read(options->draft_model, error, theirs);
    if (status == STATUS_NOT_FOUND)
        return error_set(error, STATUS_UNSUPPORTED,
                         "draft_model is \"%.200s\", which has no "
                         "tokenizer",
                         options->draft_model);
    TRY(name_it(status, error));
    return memcmp(ours, theirs, sizeof ours) == 0 ? STATUS_OK : compare_loaded(options, error);
}

/* ---- the model ---- */

static enum status load_model(struct worker *worker, const struct worker_options *options,
                              bool without_weights, struct error *error)
{
    const char *device = worker_device_name(options);
    if (strcmp(device, "cpu") != 0 && (!worker->device || !device_reads_host(worker->device)))
        return error_set(
            error, STATUS_UNSUPPORTED,
            "draft_model is set, and device is %s: tokens are guessed on the CPU alone", device);
    const struct model_options model = {.weights = options->draft_weights,
                                        .cpu_kernels = options->cpu_kernels,
                                        .attention_kernels = options->attention_kernels,
                                        .threads = worker->threads,
                                        .device = worker->device,
                                        .without_weights = without_weights};
    TRY(name_it(model_load(options->draft_model, &model, error, &worker->draft_model), error));
    TRY(drafter_check_model(model_get_config(worker->draft_model), error));
    return check_tokenizers(options, error);
}

static struct drafter_options drafter_options(const struct worker *worker,
                                              const struct worker_options *options)
{
    return (struct drafter_options){
        .model = worker->draft_model,
        .threads = worker->threads,
        .device = worker->device,
        .block_tokens = options->kv_block_tokens,
        .context_tokens = worker->context_tokens,
        .vocabulary = worker->config->vocabulary,
        .sequences_max = options->sequences_max,
        .chunk_tokens = options->prefill_chunk_tokens,
        .memory_bytes = options->draft_memory,
        .scrubs = options->kv_scrub,
    };
}

/* The kernel would end the process in its place. */
static enum status check_room(const struct drafter_options *options, struct error *error)
{
    struct drafter_sizes sizes;
    struct memory_room room;
    TRY(drafter_plan(options, &sizes, error));
    if (memory_room_read("", &room) != STATUS_OK)
        return STATUS_OK;
    return name_it(pool_memory_check(&room, sizes.kv_bytes + sizes.activation_bytes, error), error);
}

static void tell(const struct worker *worker, const struct worker_options *options)
{
    const struct drafter_sizes sizes = drafter_sizes(worker->drafter);
    log_info("draft model %s parameters %.1f million weights %.1f MiB vocabulary %u; guesses for "
             "%u sequences of up to %u tokens, with %.1f MiB for KV and %.1f MiB for activations",
             options->draft_model, (double)model_parameters(worker->draft_model) / 1e6,
             (double)model_weight_bytes(worker->draft_model) / MIB,
             model_get_config(worker->draft_model)->vocabulary, sizes.n_slots, sizes.line_tokens,
             (double)sizes.kv_bytes / MIB, (double)sizes.activation_bytes / MIB);
}

enum status worker_draft_load(struct worker *worker, const struct worker_options *options,
                              struct error *error)
{
    if (!is_wanted(options))
        return STATUS_OK;
    assert(!worker->pool && "its memory is part of what the pool's plan measures");
    TRY(load_model(worker, options, false, error));
    const struct drafter_options drafter = drafter_options(worker, options);
    TRY(check_room(&drafter, error));
    TRY(drafter_create(&drafter, error, &worker->drafter));
    drafter_set_ends(worker->drafter, worker->config->eos_ids, worker->config->n_eos_ids);
    TRY(drafter_set_suppressed(worker->drafter, worker->config->suppressed_ids,
                               worker->config->n_suppressed));
    worker->draft_mapped_bytes = model_mapped_bytes(worker->draft_model);
    tell(worker, options);
    return STATUS_OK;
}

enum status worker_draft_check(struct worker *worker, const struct worker_options *options,
                               struct error *error)
{
    struct drafter_sizes sizes;
    if (!is_wanted(options))
        return STATUS_OK;
    TRY(load_model(worker, options, true, error));
    const struct drafter_options drafter = drafter_options(worker, options);
    TRY(drafter_plan(&drafter, &sizes, error));
    uint64_t bytes;
    TRY(name_it(model_planned_bytes(worker->draft_model, options->draft_weights, &bytes, error),
                error));
    const bool is_mapped = options->draft_weights == WEIGHTS_AUTO;
    worker->draft_mapped_bytes = is_mapped ? bytes : 0;
    worker->draft_bytes = sizes.kv_bytes + sizes.activation_bytes + (is_mapped ? 0 : bytes);
    return STATUS_OK;
}

void worker_draft_unload(struct worker *worker)
{
    drafter_destroy(worker->drafter);
    model_destroy(worker->draft_model);
    worker->drafter = NULL;
    worker->draft_model = NULL;
}
