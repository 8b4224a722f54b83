#include "worker_common/drafter.h"

#include "kvcache/block_pool.h"
#include "model/config/encoder_config.h"
#include "model/config/kv_layers.h"
#include "model/forward/forward.h"
#include "model/sampling/draws.h"
#include "model/sampling/penalties.h"
#include "worker_common/worker_forward.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* What a line may lack and is guessed all the same. Where guesses are seldom worth it, so many passes lie between two. */
#define LACK_MAX 64u
/* Up to here the time of a run is that of guesses. */
#define LACK_SHORT (DRAFTER_GUESSES_MAX + 1)

struct slot {
    uint64_t id;      /* of the line that had it last */
    uint64_t used_at; /* the run; 0: never */
    uint32_t *tokens; /* [line_tokens], of which the first n_kv have KV */
    uint32_t n_kv;
    uint8_t salt[DRAFTER_SALT_MAX];
    size_t salt_bytes;
    block_id *blocks; /* [blocks_max] */
    uint32_t n_blocks;
};

/* A line of a run that has a slot. */
struct job {
    struct drafter_line *line;
    struct slot *slot;
    struct sampling_params params;
    bool is_ready; /* to be guessed */
};

struct drafter {
    struct forward *forward;
    struct draws *draws;
    struct device *device;
    struct device_memory pool_memory;
    struct block_pool *pool;
    struct drafter_sizes sizes;
    struct drafter_figures figures;
    uint32_t block_tokens, blocks_max, chunk_tokens;
    uint32_t vocabulary, worker_vocabulary;
    uint64_t n_runs;
    uint32_t *suppressed;                 /* borrowed by draws */
    struct slot slots[DRAFTER_SLOTS_MAX]; /* [sizes.n_slots] */
    struct job jobs[DRAFTER_SLOTS_MAX];   /* [n_jobs] */
    struct job *order[DRAFTER_SLOTS_MAX]; /* of a pass */
    struct forward_sequence inputs[DRAFTER_SLOTS_MAX];
    struct draw wanted[DRAFTER_SLOTS_MAX];
    uint32_t n_jobs;
};

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* ---- making ---- */

enum status drafter_check_model(const struct model_config *config, struct error *error)
{
    const char *has = kv_layers_recurrent(config) > 0 ? "layers of recurrent state"
                      : model_has_encoder(config)     ? "an encoder"
                                                      : NULL;
    if (!has)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "draft_model has %s, which does not go back to an earlier token: expected a "
                     "decoder with attention alone",
                     has);
}

static enum cache_dtype cache_dtype(const struct model *model)
{
    return worker_cache_dtype(worker_kv_dtype(WORKER_KV_AUTO, model_weight_dtype(model)));
}

static size_t block_bytes(const struct drafter_options *options)
{
    return forward_block_bytes(model_get_config(options->model), options->block_tokens,
                               cache_dtype(options->model));
}

static struct forward_options forward_of(const struct drafter_options *options,
                                         const struct drafter_sizes *sizes)
{
    const uint32_t guessing = sizes->n_slots * LACK_MAX;
    return (struct forward_options){
        .block_tokens = options->block_tokens,
        .cache_dtype = cache_dtype(options->model),
        .tokens_max = options->chunk_tokens > guessing ? options->chunk_tokens : guessing,
        .sequences_max = sizes->n_slots,
        .blocks_max = sizes->line_tokens / options->block_tokens,
        .threads = options->threads,
        .device = options->device,
    };
}

enum status drafter_plan(const struct drafter_options *options, struct drafter_sizes *sizes_out,
                         struct error *error)
{
    const struct model_config *config = model_get_config(options->model);
    const uint32_t context = smaller(options->context_tokens, config->context_tokens);
    const uint32_t line_blocks = context / options->block_tokens;
    TRY(drafter_check_model(config, error));
    const uint64_t bytes = block_bytes(options), n_fit = options->memory_bytes / bytes;
    struct drafter_sizes sizes = {.n_slots = smaller(options->sequences_max, DRAFTER_SLOTS_MAX)};
    const uint64_t n_all = (uint64_t)sizes.n_slots * line_blocks;
    sizes.n_blocks = (uint32_t)(n_fit < n_all ? n_fit : n_all);
    sizes.line_tokens = smaller(sizes.n_blocks, line_blocks) * options->block_tokens;
    sizes.kv_bytes = sizes.n_blocks * bytes;
    if (line_blocks * options->block_tokens < DRAFTER_TOKENS_LEAST)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "draft_model has a context of %u tokens, expected at least %u",
                         config->context_tokens, DRAFTER_TOKENS_LEAST);
    if (sizes.line_tokens < DRAFTER_TOKENS_LEAST)
        return error_set(
            error, STATUS_INVALID_ARGUMENT,
            "draft_memory is %" PRIu64 " bytes, and %u tokens of the draft model take "
            "%" PRIu64,
            options->memory_bytes, DRAFTER_TOKENS_LEAST,
            bytes * ((DRAFTER_TOKENS_LEAST + options->block_tokens - 1) / options->block_tokens));
    const struct forward_options forward = forward_of(options, &sizes);
    sizes.activation_bytes = forward_activation_bytes(options->model, &forward);
    *sizes_out = sizes;
    return STATUS_OK;
}

static void set_to_zero(void *bytes, size_t n_bytes)
{
    memset(bytes, 0, n_bytes);
}

static enum status make_forward(struct drafter *drafter, const struct drafter_options *options,
                                struct error *error)
{
    const struct forward_options forward = forward_of(options, &drafter->sizes);
    TRY(forward_create(options->model, &forward, error, &drafter->forward));
    TRY(forward_warm_up(drafter->forward));
    TRY(forward_plan_products(drafter->forward, error));
    TRY(device_allocate(options->device, DEVICE_KV, drafter->sizes.kv_bytes,
                        &drafter->pool_memory));
    /* So that it is there, and counted, when the worker's blocks are planned. */
    device_touch(options->device, &drafter->pool_memory, options->threads);
    TRY(block_pool_create_in(drafter->pool_memory.base, drafter->sizes.n_blocks,
                             block_bytes(options), &drafter->pool));
    block_pool_scrub(drafter->pool, options->scrubs ? set_to_zero : NULL);
    TRY(forward_attach(drafter->forward, drafter->pool, error));
    return draws_create(drafter->forward, model_host_kernels(options->model), &drafter->draws);
}

static enum status make_slots(struct drafter *drafter)
{
    for (uint32_t i = 0; i < drafter->sizes.n_slots; i++) {
        struct slot *slot = &drafter->slots[i];
        slot->tokens = calloc(drafter->sizes.line_tokens, sizeof *slot->tokens);
        slot->blocks = calloc(drafter->blocks_max, sizeof *slot->blocks);
        if (!slot->tokens || !slot->blocks)
            return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

enum status drafter_create(const struct drafter_options *options, struct error *error,
                           struct drafter **drafter_out)
{
    struct drafter_sizes sizes;
    TRY(drafter_plan(options, &sizes, error));
    struct drafter *drafter = calloc(1, sizeof *drafter);
    if (!drafter)
        return STATUS_NO_MEMORY;
    drafter->sizes = sizes;
    drafter->device = options->device;
    drafter->block_tokens = options->block_tokens;
    drafter->blocks_max = sizes.line_tokens / options->block_tokens;
    drafter->chunk_tokens = options->chunk_tokens;
    drafter->vocabulary = model_get_config(options->model)->vocabulary;
    drafter->worker_vocabulary = options->vocabulary;
    enum status status = make_slots(drafter);
    if (status == STATUS_OK)
        status = make_forward(drafter, options, error);
    if (status != STATUS_OK) {
        drafter_destroy(drafter);
        return status;
    }
    *drafter_out = drafter;
    return STATUS_OK;
}

static uint32_t blocks_of(const struct drafter *drafter, uint32_t n_tokens)
{
    return (n_tokens + drafter->block_tokens - 1) / drafter->block_tokens;
}

/* All but those of its first n_tokens. */
static void drop_blocks(struct drafter *drafter, struct slot *slot, uint32_t n_tokens)
{
    const uint32_t n_kept = smaller(blocks_of(drafter, n_tokens), slot->n_blocks);
    if (slot->n_blocks > n_kept)
        block_pool_release(drafter->pool, slot->blocks + n_kept, slot->n_blocks - n_kept);
    drafter->figures.blocks_held -= slot->n_blocks - n_kept;
    slot->n_blocks = n_kept;
    slot->n_kv = smaller(slot->n_kv, n_tokens);
}

void drafter_destroy(struct drafter *drafter)
{
    if (!drafter)
        return;
    for (uint32_t i = 0; i < drafter->sizes.n_slots; i++) {
        drop_blocks(drafter, &drafter->slots[i], 0);
        free(drafter->slots[i].tokens);
        free(drafter->slots[i].blocks);
    }
    draws_destroy(drafter->draws);
    forward_destroy(drafter->forward);
    block_pool_destroy(drafter->pool);
    device_free(drafter->device, &drafter->pool_memory);
    free(drafter->suppressed);
    free(drafter);
}

struct drafter_sizes drafter_sizes(const struct drafter *drafter)
{
    return drafter->sizes;
}

/* Those of n ids that the draft model has; returns how many. */
static uint32_t keep_known(const struct drafter *drafter, const uint32_t *ids, uint32_t n,
                           uint32_t *known_out)
{
    uint32_t n_known = 0;
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] < drafter->vocabulary)
            known_out[n_known++] = ids[i];
    return n_known;
}

void drafter_set_ends(struct drafter *drafter, const uint32_t *ids, uint32_t n)
{
    uint32_t known[PENALTIES_ENDS_MAX];
    assert(n <= PENALTIES_ENDS_MAX);
    draws_set_ends(drafter->draws, known, keep_known(drafter, ids, n, known));
}

enum status drafter_set_suppressed(struct drafter *drafter, const uint32_t *ids, uint32_t n)
{
    if (n == 0)
        return STATUS_OK;
    assert(!drafter->suppressed);
    drafter->suppressed = calloc(n, sizeof *drafter->suppressed);
    if (!drafter->suppressed)
        return STATUS_NO_MEMORY;
    draws_set_suppressed(drafter->draws, drafter->suppressed,
                         keep_known(drafter, ids, n, drafter->suppressed));
    return STATUS_OK;
}

/* ---- slots ---- */

/* How many tokens of the line the slot has KV for. The last one is computed again, since a guess needs its row. */
static uint32_t n_common(const struct slot *slot, const struct drafter_line *line)
{
    const uint32_t n_max = smaller(slot->n_kv, line->n_tokens - 1);
    uint32_t n = 0;
    while (n < n_max && slot->tokens[n] == line->tokens[n])
        n++;
    return n;
}

static struct slot *find_slot(struct drafter *drafter, uint64_t id)
{
    for (uint32_t i = 0; i < drafter->sizes.n_slots; i++)
        if (drafter->slots[i].used_at > 0 && drafter->slots[i].id == id)
            return &drafter->slots[i];
    return NULL;
}

/* What a line finds in the slot of another one. */
static uint32_t n_found(const struct slot *slot, const struct drafter_line *line)
{
    const bool is_same = slot->salt_bytes == line->salt_bytes &&
                         (line->salt_bytes == 0 ||
                          memcmp(slot->salt, line->salt, line->salt_bytes) == 0);
    return is_same ? n_common(slot, line) : 0;
}

/* NULL: the lines of this run have all. */
static struct slot *choose_slot(struct drafter *drafter, const struct drafter_line *line)
{
    struct slot *best = NULL;
    uint32_t n_best = 0;
    for (uint32_t i = 0; i < drafter->sizes.n_slots; i++) {
        struct slot *slot = &drafter->slots[i];
        if (slot->used_at == drafter->n_runs)
            continue;
        const uint32_t n = n_found(slot, line);
        if (best && (n < n_best || (n == n_best && slot->used_at >= best->used_at)))
            continue;
        best = slot;
        n_best = n;
    }
    return best;
}

/* A vocabulary without rules that name ids, where it is not the worker's. */
static struct sampling_params params_of(const struct drafter *drafter,
                                        const struct sampling_params *params)
{
    struct sampling_params own = *params;
    own.n_logprobs = 0;
    if (drafter->vocabulary < drafter->worker_vocabulary) {
        own.rules = NULL;
        own.n_stop_token_ids = own.min_tokens = 0;
    }
    return own;
}

static void add_job(struct drafter *drafter, struct drafter_line *line, struct slot *slot)
{
    struct job *job = &drafter->jobs[drafter->n_jobs++];
    slot->id = line->id;
    slot->used_at = drafter->n_runs;
    slot->n_kv = n_common(slot, line);
    *job = (struct job){.line = line, .slot = slot, .params = params_of(drafter, line->params)};
}

static void take_over(struct drafter *drafter, struct slot *slot, const struct drafter_line *line)
{
    assert(line->salt_bytes <= DRAFTER_SALT_MAX);
    drop_blocks(drafter, slot, n_found(slot, line));
    drafter->figures.kept_tokens += slot->n_kv;
    slot->salt_bytes = line->salt_bytes;
    if (line->salt_bytes > 0)
        memcpy(slot->salt, line->salt, line->salt_bytes);
}

/* Lines that have a slot keep it before others take theirs. */
static void assign(struct drafter *drafter, struct drafter_line *lines, uint32_t n)
{
    struct slot *slot;
    drafter->n_jobs = 0;
    drafter->n_runs++;
    for (uint32_t i = 0; i < n; i++) {
        lines[i].n_out = 0;
        lines[i].has_failed = false;
        slot = find_slot(drafter, lines[i].id);
        if (slot)
            add_job(drafter, &lines[i], slot);
    }
    for (uint32_t i = 0; i < n; i++) {
        if (lines[i].n_wanted == 0 || find_slot(drafter, lines[i].id))
            continue;
        slot = choose_slot(drafter, &lines[i]);
        if (!slot)
            return;
        take_over(drafter, slot, &lines[i]);
        add_job(drafter, &lines[i], slot);
    }
}

/* The one that was used least recently gives all. False: there is none but those of this run. */
static bool free_blocks(struct drafter *drafter)
{
    struct slot *oldest = NULL;
    for (uint32_t i = 0; i < drafter->sizes.n_slots; i++) {
        struct slot *slot = &drafter->slots[i];
        if (slot->n_blocks > 0 && slot->used_at < drafter->n_runs &&
            (!oldest || slot->used_at < oldest->used_at))
            oldest = slot;
    }
    if (!oldest)
        return false;
    drop_blocks(drafter, oldest, 0);
    return true;
}

/* False: there are none left. */
static bool has_room(struct drafter *drafter, struct slot *slot, uint32_t n_tokens)
{
    const uint32_t n = blocks_of(drafter, n_tokens);
    assert(n <= drafter->blocks_max);
    while (slot->n_blocks < n) {
        if (block_pool_acquire(drafter->pool, 1, &slot->blocks[slot->n_blocks]) == STATUS_OK) {
            slot->n_blocks++;
            drafter->figures.blocks_held++;
        } else if (!free_blocks(drafter)) {
            return false;
        }
    }
    return true;
}

/* ---- passes ---- */

static uint32_t n_known(const struct drafter_line *line)
{
    return line->n_tokens + line->n_out;
}

/* The draft model may have fewer tokens than the worker's. */
static bool knows(const struct drafter *drafter, const struct job *job)
{
    const struct drafter_line *line = job->line;
    for (uint32_t i = job->slot->n_kv; i < line->n_tokens; i++)
        if (line->tokens[i] >= drafter->vocabulary)
            return false;
    return true;
}

/* A guess computes the token before it, not itself. */
static uint32_t n_wanted(const struct drafter *drafter, const struct job *job)
{
    const uint32_t n_tokens = job->line->n_tokens, n_max = drafter->sizes.line_tokens;
    return n_tokens > n_max ? 0 : smaller(job->line->n_wanted, n_max + 1 - n_tokens);
}

static void add_input(struct drafter *drafter, uint32_t i, struct job *job, uint32_t n_query)
{
    const struct slot *slot = job->slot;
    drafter->order[i] = job;
    drafter->inputs[i] = (struct forward_sequence){
        .request_id = slot->id,
        .token_ids = job->line->tokens + slot->n_kv,
        .n_query = n_query,
        .n_past = slot->n_kv,
        .prompt_len = slot->n_kv + n_query, /* so chunks need not be whole blocks */
        .blocks = slot->blocks,
        .n_blocks = drafter->blocks_max,
    };
}

static void note_kv(struct drafter *drafter, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct slot *slot = drafter->order[i]->slot;
        const struct forward_sequence *input = &drafter->inputs[i];
        memcpy(slot->tokens + slot->n_kv, input->token_ids, input->n_query * sizeof *slot->tokens);
        slot->n_kv += input->n_query;
    }
}

/* Sets is_ready where little is missing, and computes of the others what a pass has room for. */
static enum status catch_up(struct drafter *drafter, bool *caught_up_out)
{
    uint32_t n = 0, n_left = drafter->chunk_tokens;
    for (uint32_t i = 0; i < drafter->n_jobs; i++) {
        struct job *job = &drafter->jobs[i];
        const uint32_t wanted = n_wanted(drafter, job);
        const uint32_t n_lack = job->line->n_tokens - job->slot->n_kv;
        if (wanted == 0 || !knows(drafter, job) ||
            !has_room(drafter, job->slot, job->line->n_tokens + wanted - 1))
            continue;
        job->line->n_wanted = wanted;
        job->is_ready = n_lack <= LACK_MAX;
        *caught_up_out |= n_lack > LACK_SHORT;
        if (job->is_ready || n_left == 0)
            continue;
        const uint32_t n_query = smaller(n_lack - 1, n_left);
        add_input(drafter, n++, job, n_query);
        n_left -= n_query;
    }
    if (n == 0)
        return STATUS_OK;
    TRY(draws_run(drafter->draws, drafter->inputs, n, n, drafter->wanted));
    note_kv(drafter, n);
    drafter->figures.caught_up_tokens += drafter->chunk_tokens - n_left;
    return STATUS_OK;
}

/* Those that have more than a token to compute come first, as chunks do. Returns how many. */
static uint32_t add_ready(struct drafter *drafter, uint32_t n, bool with_chunks)
{
    for (uint32_t i = 0; i < drafter->n_jobs; i++) {
        struct job *job = &drafter->jobs[i];
        if (!job->is_ready)
            continue;
        const uint32_t n_query = n_known(job->line) - job->slot->n_kv;
        if ((n_query > 1) != with_chunks)
            continue;
        add_input(drafter, n, job, n_query);
        drafter->inputs[n].wants_logits = true;
        drafter->wanted[n] = (struct draw){.params = &job->params,
                                           .tokens = job->line->tokens,
                                           .n_prompt = job->line->n_prompt,
                                           .n_tokens = n_known(job->line)};
        n++;
    }
    return n;
}

static void take_guesses(struct drafter *drafter, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct job *job = drafter->order[i];
        const struct draw *drawn = &drafter->wanted[i];
        job->is_ready = drawn->status == STATUS_OK && drawn->token_id < drafter->worker_vocabulary;
        if (!job->is_ready) {
            job->line->has_failed = job->line->n_out == 0;
            continue;
        }
        job->line->tokens[n_known(job->line)] = drawn->token_id;
        job->line->n_out++;
        job->is_ready = job->line->n_out < job->line->n_wanted;
    }
}

enum status drafter_run(struct drafter *drafter, struct drafter_line *lines, uint32_t n,
                        bool *caught_up_out)
{
    *caught_up_out = false;
    assign(drafter, lines, n);
    TRY(catch_up(drafter, caught_up_out));
    for (;;) {
        const uint32_t n_chunks = add_ready(drafter, 0, true);
        const uint32_t n_all = add_ready(drafter, n_chunks, false);
        if (n_all == 0)
            return STATUS_OK;
        TRY(draws_run(drafter->draws, drafter->inputs, n_all, n_chunks, drafter->wanted));
        note_kv(drafter, n_all);
        take_guesses(drafter, n_all);
    }
}

struct drafter_figures drafter_figures(const struct drafter *drafter)
{
    return drafter->figures;
}

uint64_t drafter_layers_done(const struct drafter *drafter)
{
    return forward_layers_done(drafter->forward);
}
