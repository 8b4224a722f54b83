#include "tests/kernels/cases/run.h"

#include "tests/kernels/cases/blocks.h"
#include "tests/kernels/cases/step.h"
#include "tests/kernels/cases/tensors.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct running {
    const struct case_data *data;
    const struct case_options *options;
    struct case_result *result;
    struct attention *layers[CASE_LAYERS_MAX];
    struct attention_metadata *metadata[CASE_LAYERS_MAX]; /* of each group */
    struct case_blocks blocks[CASE_LAYERS_MAX];
    struct case_tensors tensors;
    struct case_step step;
    uint32_t done[CASE_SEQUENCES_MAX];
    bool is_static;
    struct attention_metadata at_capture[CASE_LAYERS_MAX]; /* as it was when it became static */
    struct device_memory arenas[CASE_LAYERS_MAX];          /* of a device, of each group */
};

static bool is_ok(const struct running *running, enum status status, const struct error *error,
                  const char *what)
{
    if (status != STATUS_OK)
        case_complain(running->result, "%s: status %d: %s", what, (int)status, error->text);
    return status == STATUS_OK;
}

static struct attention_limits make_limits(const struct case_data *data,
                                           const struct attention_config *config)
{
    const struct attention_case *c = data->test_case;
    bool is_slotted = config->is_cyclic || config->sink_tokens != 0;
    struct attention_limits limits = {
        .n_sequences_max = c->n_sequences,
        .n_tokens_max = data->n_rows + 1,
        .n_kv_tokens_max = config->keys == KEYS_SELF ? 0 : data->n_kv_rows,
        .kv_len_max = 1,
        .n_heads = c->n_heads,
        .n_kv_heads = c->n_kv_heads,
        .head_dim = c->head_dim,
        .cache = config->cache,
        .keys = config->keys,
        .mask = config->mask,
        .window = is_slotted ? config->window : 0,
        .sink_tokens = config->sink_tokens,
        .is_cyclic = config->is_cyclic,
        .n_beams_max = config->n_beams_max,
        .n_draft_max = config->n_draft_max,
        .has_short_path = config->path == PATH_SHORT,
        .has_multi_block = config->multi_block == CHOICE_ON,
        .bias_queries = config->bias.n_queries,
        .bias_keys = config->bias.n_keys,
        .ropes = {config->rope},
    };
    for (uint32_t s = 0; s < c->n_sequences; s++)
        if (case_keys(c, s) > limits.kv_len_max)
            limits.kv_len_max = case_keys(c, s);
    return limits;
}

/* Where the device finds a group's steps. */
static void place_arena(struct running *running, uint32_t group)
{
    const struct case_options *options = running->options;
    struct attention_metadata *metadata = running->metadata[group];
    if (!options->device)
        return;
    size_t bytes = options->backend->metadata_arena_bytes(metadata);
    enum status status = device_allocate(options->device, DEVICE_STAGING, bytes,
                                         &running->arenas[group]);
    assert(status == STATUS_OK);
    (void)status;
    options->backend->metadata_use_arena(metadata, running->arenas[group].base);
}

static bool create_layers(struct running *running)
{
    const struct case_data *data = running->data;
    const struct attention_backend *backend = running->options->backend;
    struct error error = {""};
    for (uint32_t layer = 0; layer < data->test_case->n_layers; layer++) {
        const struct attention_config *config = &data->configs[layer];
        uint32_t group = data->layer_groups[layer];
        struct attention_limits limits = make_limits(data, config);
        if (!is_ok(running,
                   backend->create(config, running->options->pool, &running->layers[layer], &error),
                   &error, "create"))
            return false;
        if (running->metadata[group])
            continue;
        if (!is_ok(running,
                   backend->metadata_create(&limits, running->options->pool,
                                            &running->metadata[group], &error),
                   &error, "metadata_create"))
            return false;
        place_arena(running, group);
    }
    return true;
}

/* The slots of the step's new keys. */
static void note_step(struct running *running, uint32_t group)
{
    const struct case_step *step = &running->step;
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        const struct attention_sequence *sequence = &step->sequences[i];
        bool is_self = running->data->test_case->keys == KEYS_SELF;
        uint32_t n_new = is_self ? sequence->query_len : sequence->new_len;
        uint32_t n_beams = is_self && sequence->n_beams > 1 ? sequence->n_beams : 1;
        for (uint32_t beam = 0; beam < n_beams; beam++)
            for (uint32_t t = sequence->kv_len - n_new; t < sequence->kv_len; t++)
                case_blocks_note(running->data, step->owners[i], beam, t, &running->blocks[group]);
    }
}

/* A captured graph reads where it read before. */
static bool is_in_place(const struct running *running, uint32_t group)
{
    const struct attention_metadata *now = running->metadata[group];
    const struct attention_metadata *then = &running->at_capture[group];
    if (running->is_static &&
        (now->sequences != then->sequences || now->token_starts != then->token_starts ||
         now->token_sequences != then->token_sequences || now->token_rows != then->token_rows ||
         now->indices != then->indices || now->positions != then->positions ||
         now->kv_beams != then->kv_beams || now->q_cos[0] != then->q_cos[0] ||
         now->q_sin[0] != then->q_sin[0] || now->workspace != then->workspace))
        case_complain(running->result, "an array of a static metadata has moved");
    return running->result->problem[0] == '\0';
}

/* When the prompts of all sequences that run have ended. */
static bool make_static(struct running *running)
{
    const struct case_step *step = &running->step;
    struct error error = {""};
    if (!running->data->test_case->is_static || running->options->is_oracle || running->is_static ||
        step->n_sequences == 0 || step->sequences[0].phase == PHASE_CONTEXT)
        return true;
    for (uint32_t group = 0; group < running->data->n_groups; group++) {
        struct attention_metadata *metadata = running->metadata[group];
        enum status status = running->options->backend->metadata_make_static(
            metadata, step->n_sequences, 1, &error);
        if (!is_ok(running, status, &error, "metadata_make_static"))
            return false;
        running->at_capture[group] = *metadata;
    }
    running->is_static = true;
    return true;
}

/* On the host in place; for a device in a view, which is gone when the device has what was written there. */
static enum status prepare(struct running *running, uint32_t group,
                           const struct attention_step *step, struct error *error)
{
    const struct attention_backend *backend = running->options->backend;
    struct attention_metadata *metadata = running->metadata[group];
    struct device *device = running->options->device;
    const struct device_memory *arena = &running->arenas[group];
    const struct kv_view *kv = &running->blocks[group].kv;
    uint8_t *view;
    if (!device)
        return backend->metadata_prepare(metadata, step, kv, error);
    TRY(device_write_begin(device, arena->base, arena->bytes, &view));
    backend->metadata_use_arena(metadata, view);
    enum status status = backend->metadata_prepare(metadata, step, kv, error);
    backend->metadata_use_arena(metadata, arena->base);
    if (status == STATUS_OK)
        device_write(device, DEVICE_COMPUTE, arena->base, view, arena->bytes);
    else
        device_write_drop(device, view);
    return status;
}

static bool prepare_group(struct running *running, uint32_t group)
{
    struct case_step *step = &running->step;
    struct attention_step of_backend = {.sequences = step->sequences,
                                        .n_sequences = step->n_sequences,
                                        .padded_query_len = step->padded_query_len,
                                        .padded_new_len = step->padded_new_len};
    struct error error = {""};
    for (uint32_t i = 0; i < step->n_sequences; i++) {
        step->sequences[i].block_ids = running->blocks[group].block_ids[step->owners[i]];
        step->sequences[i].n_blocks = running->blocks[group].n_blocks[step->owners[i]];
    }
    enum status status = prepare(running, group, &of_backend, &error);
    if (running->is_static && step->n_sequences == 0) {
        if (status != STATUS_INVALID_ARGUMENT)
            case_complain(running->result, "a static metadata takes a step without sequences");
        return false;
    }
    note_step(running, group);
    return is_ok(running, status, &error, "metadata_prepare") && is_in_place(running, group);
}

/* What was enqueued has been computed. */
static void wait(const struct running *running)
{
    struct device *device = running->options->device;
    if (device && device_wait(device, device_record(device, DEVICE_COMPUTE)) != STATUS_OK)
        case_complain(running->result, "the device is lost");
}

static void run_layer(struct running *running, uint32_t layer, const struct attention_io *io)
{
    const struct case_data *data = running->data;
    const struct attention_backend *backend = running->options->backend;
    const struct attention_metadata *metadata = running->metadata[data->layer_groups[layer]];
    struct error error = {""};
    case_tensors_poison_outputs(&running->tensors);
    if (running->options->updates_prompts && metadata->n_generations == 0) {
        (void)is_ok(running, backend->kv_update(running->layers[layer], metadata, io, &error),
                    &error, "kv_update");
        wait(running);
        case_tensors_check_untouched(&running->tensors, running->result);
        return;
    }
    (void)is_ok(running, backend->forward(running->layers[layer], metadata, io, &error), &error,
                "forward");
    wait(running);
    case_tensors_collect(data, layer, &running->tensors, running->result);
}

/* Keys that a window has left behind: their slots may hold anything, those of a prefix that others begin with excepted. */
static void forget_keys(struct running *running)
{
    const struct case_data *data = running->data;
    const struct attention_case *c = data->test_case;
    if (c->keys != KEYS_SELF || c->is_cyclic || c->sink_tokens != 0 || c->reuses_prefix)
        return;
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (uint32_t i = 0; i < running->step.n_sequences; i++) {
            const uint32_t s = running->step.owners[i], window = data->layer_windows[layer];
            if (window != 0 && running->done[s] >= window)
                case_blocks_forget(data, s, running->done[s] - window + 1,
                                   &running->blocks[data->layer_groups[layer]]);
        }
}

static bool run_step(struct running *running)
{
    const struct case_data *data = running->data;
    struct attention_io io;
    case_tensors_fill(data, &running->step, &running->tensors, &io);
    for (uint32_t group = 0; group < data->n_groups; group++)
        if (!prepare_group(running, group))
            return false;
    for (uint32_t layer = 0; layer < data->test_case->n_layers; layer++)
        run_layer(running, layer, &io);
    for (uint32_t i = 0; i < running->step.n_sequences; i++)
        running->done[running->step.owners[i]] += running->step.sequences[i].query_len;
    forget_keys(running);
    return running->result->problem[0] == '\0';
}

static bool is_finished(const struct running *running)
{
    const struct attention_case *c = running->data->test_case;
    for (uint32_t s = 0; s < c->n_sequences; s++)
        if ((running->options->only == CASE_ALL || running->options->only == s) &&
            running->done[s] < c->sequences[s].len)
            return false;
    return true;
}

/* The last step has no sequence at all. */
static void run_steps(struct running *running)
{
    bool goes_on = true;
    for (uint32_t number = 0; goes_on; number++) {
        goes_on = !is_finished(running);
        case_step_make(running->data, number, running->done, running->options->only,
                       &running->step);
        if (!make_static(running) || (!run_step(running) && running->result->problem[0] != '\0'))
            return;
    }
    for (uint32_t group = 0; group < running->data->n_groups; group++)
        case_blocks_check(running->data, &running->blocks[group], running->result);
}

/* Rows of a prefix are computed by the sequence that it comes from. */
static void skip_prefixes(struct running *running)
{
    const struct case_data *data = running->data;
    const struct attention_case *c = data->test_case;
    for (uint32_t s = 0; s < c->n_sequences; s++) {
        const uint32_t n = c->sequences[s].prefix_len;
        running->done[s] = n;
        for (uint32_t layer = 0; layer < c->n_layers; layer++) {
            size_t row = (size_t)layer * data->n_rows + data->first_rows[s];
            memset(running->result->output + row * data->q_width, 0,
                   n * data->q_width * sizeof(float));
            memset(running->result->lse + row * c->n_heads, 0, n * c->n_heads * sizeof(float));
        }
    }
}

typedef void (*memory_change)(struct device *device, const void *base, size_t bytes);

static void change_guarded(const struct running *running, const struct guarded *guarded,
                           memory_change change)
{
    if (!guarded->map)
        return;
    size_t bytes = (size_t)((char *)guarded->map + guarded->map_bytes - (char *)guarded->data);
    change(running->options->device, guarded->data, bytes - GUARD_BYTES);
}

/* Of tensors, caches, and the weights that a device's back end reads where they are. NULL: none. */
static void change_memory(const struct running *running, memory_change change)
{
    const struct case_tensors *tensors = &running->tensors;
    const struct guarded *all[] = {
        &tensors->q.memory,      &tensors->k.memory,     &tensors->v.memory,
        &tensors->output.memory, &tensors->lse.memory,   &tensors->mask.memory,
        &running->data->q_norm,  &running->data->k_norm, &running->data->bias,
    };
    for (size_t i = 0; change && i < sizeof all / sizeof all[0]; i++)
        change_guarded(running, all[i], change);
    for (uint32_t group = 0; change && group < running->data->n_groups; group++)
        change_guarded(running, &running->blocks[group].memory, change);
}

void case_run(const struct case_data *data, const struct case_options *options,
              struct case_result *result_out)
{
    const struct attention_case *c = data->test_case;
    struct running *running = calloc(1, sizeof *running);
    size_t n_outputs = (size_t)c->n_layers * data->n_rows * data->q_width;
    size_t n_lse = (size_t)c->n_layers * data->n_rows * c->n_heads;
    *result_out = (struct case_result){.output = malloc(n_outputs * sizeof(float)),
                                       .lse = malloc(n_lse * sizeof(float)),
                                       .is_computed = calloc(data->n_rows + 1, sizeof(bool)),
                                       .n_caches = data->n_groups};
    assert(running && result_out->output && result_out->lse && result_out->is_computed);
    memset(result_out->output, 0xff, n_outputs * sizeof(float));
    memset(result_out->lse, 0xff, n_lse * sizeof(float));
    running->data = data;
    running->options = options;
    running->result = result_out;
    skip_prefixes(running);
    case_tensors_init(data, &running->tensors);
    for (uint32_t group = 0; group < data->n_groups; group++) {
        case_blocks_init(data, group, &running->blocks[group]);
        result_out->caches[group] = running->blocks[group].memory;
        result_out->cache_bytes[group] = running->blocks[group].kv.n_blocks *
                                         running->blocks[group].kv.block_stride;
    }
    change_memory(running, options->adopt);
    if (create_layers(running))
        run_steps(running);
    change_memory(running, options->disown);
    for (uint32_t i = 0; i < CASE_LAYERS_MAX; i++) {
        options->backend->destroy(running->layers[i]);
        options->backend->metadata_destroy(running->metadata[i]);
        case_blocks_finish(&running->blocks[i]);
        if (options->device)
            device_free(options->device, &running->arenas[i]);
    }
    case_tensors_finish(&running->tensors);
    free(running);
}

void case_result_finish(struct case_result *result)
{
    for (uint32_t i = 0; i < result->n_caches; i++)
        guarded_destroy(&result->caches[i]);
    free(result->output);
    free(result->lse);
    free(result->is_computed);
}
