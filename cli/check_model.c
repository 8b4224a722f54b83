#include "base/memory_room.h"
#include "base/thread_pool.h"
#include "cli/attention_facts.h"
#include "cli/command.h"
#include "cli/interrupt.h"
#include "cli/manifest.h"
#include "cli/output.h"
#include "cli/read_speed.h"
#include "cli/split_costs.h"
#include "cli/state_facts.h"
#include "device/device.h"
#include "model/config/families.h"
#include "model/config/kv_layers.h"
#include "model/folder_report.h"
#include "model/forward/forward.h"
#include "model/model.h"
#include "model/weights/weight_types.h"
#include "router/requests/generation_defaults.h"
#include "tokenizer/tokenizer.h"
#include "worker_common/kv_plan.h"
#include "worker_common/worker.h"
#include "worker_common/worker_device.h"
#include "worker_common/worker_forward.h"
#include "worker_common/worker_kv_scales.h"
#include "worker_common/worker_sinks.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB           (1 << 20)
#define LONG_CONTEXT  4096
#define LONGEST_SHOWN 32768

#define CHECK_MODEL_CONFIG(X)                                                                      \
    WEIGHTS_CONFIG_ROW(X)                                                                          \
    KV_DTYPE_CONFIG_ROWS(X)                                                                        \
    ATTENTION_WINDOW_CONFIG_ROWS(X)                                                                \
    KV_BLOCK_TOKENS_CONFIG_ROW(X)                                                                  \
    CONTEXT_TOKENS_CONFIG_ROW(X)                                                                   \
    ATTENTION_MATH_CONFIG_ROW(X)                                                                   \
    ATTENTION_SWITCH_CONFIG_ROWS(X)                                                                \
    X(device, STRING, "cpu", "cpu|cuda:N|auto", "device that would compute")                       \
    X(manifest, STRING, "", "path",                                                                \
      "file in the format of `sha256sum`: each file of the model must be in it, with its digest")  \
    X(tokenizer, BOOL, "yes", "", "also read the tokenizer; --no-tokenizer skips it")              \
    X(json, BOOL, "no", "", "print one JSON document instead of lines")

CONFIG_DECLARE(check_model_config, CHECK_MODEL_CONFIG);
CONFIG_DEFINE(check_model_config, CHECK_MODEL_CONFIG, CONFIG_NO_ALIASES)

/* ---- facts, as members of the JSON document ---- */

static void add_model(json_t *facts, const struct model *model)
{
    const struct model_config *config = model_get_config(model);
    uint64_t digest[2];
    model_digest(model, digest);
    json_object_update_new(
        facts,
        json_pack(
            "{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:o}", "architecture",
            model_family_name(config->family), "parameters", (json_int_t)model_parameters(model),
            "weight_bytes", (json_int_t)model_weight_bytes(model), "layers",
            (json_int_t)config->n_layers, "hidden", (json_int_t)config->hidden, "heads",
            (json_int_t)config->n_heads, "head_dim", (json_int_t)config->head_dim, "kv_heads",
            (json_int_t)config->n_kv_heads, "context_tokens", (json_int_t)config->context_tokens,
            "vocabulary", (json_int_t)config->vocabulary, "head_is_tied", config->tied_embeddings,
            "digest", json_sprintf("%016" PRIx64 "%016" PRIx64, digest[0], digest[1])));
}

/* {"Q4_1": bytes, "F32": bytes}, and what a token reads of them */
static void add_types(json_t *facts, const struct model *model)
{
    const struct model_config *config = model_get_config(model);
    struct weight_counts counts;
    json_t *types = json_object();
    weight_types_count(model_weights(model), config->n_layers, config->experts.routing.n_experts,
                       config->experts.routing.top_k, &counts);
    for (enum dtype dtype = DTYPE_F32; dtype <= DTYPE_LAST; dtype++)
        if (counts.bytes[dtype] > 0)
            json_object_set_new(types, dtype_name(dtype),
                                json_integer((json_int_t)counts.bytes[dtype]));
    json_object_set_new(facts, "weight_bytes_per_token",
                        json_integer((json_int_t)counts.token_bytes));
    json_object_set_new(facts, "weight_types", types);
    json_object_set_new(
        facts, "bits_per_weight",
        json_real(8 * (double)model_weight_bytes(model) / (double)model_parameters(model)));
}

static uint64_t less(uint64_t bytes, uint64_t by)
{
    return bytes > by ? bytes - by : 0;
}

/* K and V of a sequence of so many tokens; is_whole: as if layers with a window kept all of them. */
static uint64_t bytes_at(const struct geometry *geometry, uint32_t n_tokens, bool is_whole)
{
    uint64_t whole;
    const uint64_t bytes = geometry_sequence_bytes(geometry, n_tokens, &whole);
    return is_whole ? whole : bytes;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* What a long sequence takes, and with windows, what the longest one saves, or one of LONGEST_SHOWN tokens. */
static void add_sequence(json_t *facts, const struct model_config *config,
                         const struct geometry *geometry)
{
    const uint32_t n_tokens = smaller(config->context_tokens, LONGEST_SHOWN);
    uint32_t n_layers = 0, least = UINT32_MAX, most = 0;
    for (uint32_t i = 0; i < geometry->groups.n; i++) {
        const struct cache_group *group = &geometry->groups.all[i];
        if (group->window == 0)
            continue;
        n_layers += group->n_layers;
        least = smaller(least, group->window);
        most = group->window > most ? group->window : most;
    }
    if (geometry->sinks.window > 0)
        json_object_set_new(
            facts, "sinks",
            json_pack("{s:I, s:I, s:I, s:I}", "sinks", (json_int_t)geometry->sinks.sinks, "window",
                      (json_int_t)geometry->sinks.window, "tokens",
                      (json_int_t)SINK_SEQUENCE_TOKENS, "bytes",
                      (json_int_t)(sink_window_spans_max(&geometry->sinks, geometry->block_tokens) *
                                   geometry_block_bytes(geometry))));
    json_object_set_new(
        facts, "kv_long_bytes",
        json_integer(
            (json_int_t)(bytes_at(geometry, smaller(config->context_tokens, LONG_CONTEXT), false) -
                         geometry->groups.n_state * geometry_block_bytes(geometry))));
    if (geometry->groups.n_state > 0)
        json_object_set_new(facts, "recurrent_state_blocks",
                            json_integer(geometry->groups.n_state));
    if (n_layers == 0)
        return;
    json_object_set_new(
        facts, "windows",
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "layers", (json_int_t)n_layers, "least",
                  (json_int_t)least, "most", (json_int_t)most, "groups",
                  (json_int_t)geometry->groups.n, "sequence_tokens", (json_int_t)n_tokens,
                  "sequence_bytes", (json_int_t)bytes_at(geometry, n_tokens, false),
                  "sequence_bytes_whole", (json_int_t)bytes_at(geometry, n_tokens, true)));
}

/* Bytes of a sequence of so many tokens that no layer uses. */
static uint64_t padding_at(const struct geometry *geometry, uint32_t n_tokens)
{
    const uint64_t place = geometry_block_bytes(geometry) / geometry->groups.places;
    const uint32_t n_spans = geometry_spans(geometry, n_tokens);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < geometry->groups.n; i++) {
        const uint32_t used = geometry->groups.all[i].n_layers *
                              cache_group_width(&geometry->groups, i);
        bytes += smaller(n_spans,
                         cache_group_spans_max(&geometry->groups, i, geometry->block_tokens)) *
                 (geometry->groups.places - used) * place;
    }
    return bytes;
}

/* Layers with experts, those whose heads differ, and those that read K and V of others. */
static void add_unequal(json_t *facts, const struct model_config *config,
                        const struct geometry *geometry)
{
    const uint32_t n_tokens = smaller(config->context_tokens, LONGEST_SHOWN);
    const struct moe_config *experts = &config->experts;
    uint32_t n_sharing = 0, n_wide = 0, n_chosen = 0;
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        n_sharing += config->kv_back[layer] > 0;
        n_wide += config->is_wide[layer];
        n_chosen += config->has_experts[layer];
    }
    if (n_chosen > 0)
        json_object_set_new(facts, "experts",
                            json_pack("{s:I, s:I, s:I, s:I, s:b}", "layers", (json_int_t)n_chosen,
                                      "n", (json_int_t)experts->routing.n_experts, "per_token",
                                      (json_int_t)experts->routing.top_k, "inner",
                                      (json_int_t)experts->n_inner, "beside_mlp",
                                      config->experts_are_beside_mlp));
    if (n_sharing > 0)
        json_object_set_new(facts, "layers_that_read_others", json_integer(n_sharing));
    if (n_wide > 0)
        json_object_set_new(facts, "wide",
                            json_pack("{s:I, s:I, s:I, s:I, s:I}", "layers", (json_int_t)n_wide,
                                      "head_dim", (json_int_t)config->wide_head_dim, "kv_heads",
                                      (json_int_t)config->wide_kv_heads, "sequence_tokens",
                                      (json_int_t)n_tokens, "padding_bytes",
                                      (json_int_t)padding_at(geometry, n_tokens)));
}

/* Latents, beside what K and V of heads would take. */
static void add_latents(json_t *facts, const struct model_config *config,
                        const struct geometry *geometry)
{
    const struct latent_shape *latent = &config->decoder.latent;
    const uint32_t n_tokens = smaller(config->context_tokens, LONGEST_SHOWN);
    if (latent->dim == 0)
        return;
    const uint64_t bytes = bytes_at(geometry, n_tokens, false);
    const uint64_t of_heads = bytes / geometry->head_dim * config->n_heads *
                              (config->head_dim + latent->v_dim);
    json_object_set_new(facts, "latents",
                        json_pack("{s:I, s:I, s:I, s:I, s:I}", "latent_dim",
                                  (json_int_t)latent->dim, "rope_dim", (json_int_t)latent->rope_dim,
                                  "sequence_tokens", (json_int_t)n_tokens, "sequence_bytes",
                                  (json_int_t)bytes, "sequence_bytes_of_heads",
                                  (json_int_t)of_heads));
}

/* Each of serve's two workers has its own pool and its own copy of unmapped weights; mapped weights count once. */
static void add_memory(json_t *facts, const struct model *model, const struct geometry *geometry,
                       const struct memory_room *room)
{
    const struct model_config *config = model_get_config(model);
    const uint32_t block_tokens = geometry->block_tokens;
    add_sequence(facts, config, geometry);
    add_latents(facts, config, geometry);
    add_unequal(facts, config, geometry);
    uint64_t weights = model_weight_bytes(model);
    uint64_t for_one = less(room->available_bytes, weights);
    uint64_t for_two = less(room->available_bytes, 2 * weights - model_mapped_bytes(model));
    json_object_update_new(
        facts,
        json_pack("{s:I, s:s, s:I, s:I, s:I, s:I}", "kv_bytes_per_token",
                  (json_int_t)(bytes_at(geometry, block_tokens, true) / block_tokens), "kv_dtype",
                  kv_dtype_name(geometry->dtype), "memory_available_bytes",
                  (json_int_t)room->available_bytes, "memory_limit_bytes",
                  (json_int_t)room->limit_bytes, "context_that_fits_worker",
                  (json_int_t)kv_plan_context_fit(geometry, for_one, 1, config->context_tokens),
                  "context_that_fits_serve",
                  (json_int_t)kv_plan_context_fit(geometry, for_two, 2, config->context_tokens)));
}

/* As the forward pass of a worker with these rows would be. */
static enum status add_attention(json_t *facts, const struct model *model,
                                 const struct check_model_config *values,
                                 const struct geometry *geometry, const struct kv_scales *scales,
                                 struct error *error)
{
    struct worker_step step = {.tokens_max = 1,
                               .sequences_max = 1,
                               .kv_scales = scales,
                               .context_math = values->attention_math,
                               .attention = ATTENTION_SWITCHES(values),
                               .device = model_device(model)};
    TRY(worker_choose_context(model_get_config(model), values->max_context_tokens, error,
                              &step.context_tokens));
    const struct forward_options options = worker_forward_options(geometry, &step);
    return attention_facts_add(facts, model, &options, error);
}

/* With the scales that a worker would find. */
static enum status add_kv(json_t *facts, const char *folder, const struct model *model,
                          const struct check_model_config *values, const struct memory_room *room,
                          struct error *error)
{
    static const char *const PLACES[] = {[KV_SCALES_NOWHERE] = "none",
                                         [KV_SCALES_BESIDE] = "file",
                                         [KV_SCALES_OF_CHECKPOINT] = "checkpoint"};
    struct kv_scales scales;
    struct geometry geometry;
    json_object_set_new(facts, "kv_scales",
                        json_string(PLACES[worker_kv_scales_place(model, folder)]));
    if (model_kv_scales_error(model)[0])
        json_object_set_new(facts, "kv_scales_error", json_string(model_kv_scales_error(model)));
    TRY(worker_kv_scales_find(model, folder, values->kv_dtype, values->kv_scales, &scales, error));
    enum status status = worker_geometry(model, values->kv_dtype, &scales, values->kv_block_tokens,
                                         error, &geometry);
    if (status == STATUS_OK)
        status = worker_sinks_read(values->sink_tokens, values->attention_window, &geometry.sinks,
                                   error);
    if (status == STATUS_OK) {
        add_memory(facts, model, &geometry, room);
        status = add_attention(facts, model, values, &geometry, &scales, error);
    }
    kv_scales_finish(&scales);
    return status;
}

static enum status add_tokenizer(json_t *facts, const char *folder, struct error *error)
{
    struct generation_defaults defaults;
    struct tokenizer *tokenizer;
    TRY(generation_defaults_read(folder, &defaults, error));
    TRY(tokenizer_load(folder, error, &tokenizer));
    json_object_set_new(facts, "tokenizer_ids", json_integer(tokenizer_n_ids(tokenizer)));
    enum status status = split_costs_add(facts, tokenizer);
    tokenizer_destroy(tokenizer);
    return status;
}

static enum status add_model_facts(json_t *facts, const char *folder,
                                   const struct check_model_config *values, struct device *device,
                                   struct error *error)
{
    struct model *model;
    struct thread_pool *threads;
    struct memory_room room; /* before the model uses any */
    if (memory_room_read("", &room) != STATUS_OK)
        return error_set(error, STATUS_IO_FAILED, "/proc/meminfo has no MemAvailable");
    TRY(thread_pool_create(0, false, &threads));
    struct model_options options = {
        .weights = values->weights,
        .context_tokens = values->max_context_tokens,
        .attention_window = worker_model_window(values->sink_tokens, values->attention_window),
        .force_window = values->force_window,
        .threads = threads,
        .device = device};
    enum status status = model_load(folder, &options, error, &model);
    const double read_speed = status == STATUS_OK
                                  ? read_speed_measure(threads, room.available_bytes / 8)
                                  : 0;
    thread_pool_destroy(threads);
    TRY(status);
    add_model(facts, model);
    state_facts_add(facts, model_get_config(model));
    add_types(facts, model);
    json_object_set_new(facts, "read_bytes_per_second", json_real(read_speed));
    status = add_kv(facts, folder, model, values, &room, error);
    model_destroy(model);
    return status;
}

static enum status add_facts(json_t *facts, const char *folder,
                             const struct check_model_config *values, struct error *error)
{
    const struct worker_options worker = {.folder = folder, .device = values->device};
    struct device *device;
    TRY(worker_device_check(&worker, error));
    TRY(worker_device_open(&worker, &device, error));
    enum status status = add_model_facts(facts, folder, values, device, error);
    device_close(device);
    TRY(status);
    return values->tokenizer ? add_tokenizer(facts, folder, error) : STATUS_OK;
}

/* ---- for people ---- */

static json_int_t fact(const json_t *facts, const char *key)
{
    return json_integer_value(json_object_get(facts, key));
}

static double mib(const json_t *facts, const char *key)
{
    return (double)fact(facts, key) / MIB;
}

static const char *fact_text(const json_t *facts, const char *key)
{
    return json_string_value(json_object_get(facts, key));
}

#define INT "%" JSON_INTEGER_FORMAT

/* "92.1 MiB, 5.7 bits each: Q4_1 62.3 MiB, Q8_0 28.7 MiB" */
static void print_weights(const json_t *facts)
{
    const char *name;
    json_t *bytes;
    const char *before = ":";
    printf("weights         %.1f MiB, %.1f bits each", mib(facts, "weight_bytes"),
           json_real_value(json_object_get(facts, "bits_per_weight")));
    json_object_foreach(json_object_get(facts, "weight_types"), name, bytes)
    {
        printf("%s %s %.1f MiB", before, name, (double)json_integer_value(bytes) / MIB);
        before = ",";
    }
    printf("\n");
}

static void print_model(const json_t *facts)
{
    printf("architecture    %s\n", fact_text(facts, "architecture"));
    printf("parameters      " INT "\n", fact(facts, "parameters"));
    print_weights(facts);
    printf("layers          " INT " of " INT ", " INT " heads of " INT ", ", fact(facts, "layers"),
           fact(facts, "hidden"), fact(facts, "heads"), fact(facts, "head_dim"));
    if (json_object_get(facts, "latents"))
        puts("latents for K and V");
    else
        printf(INT " for K and V\n", fact(facts, "kv_heads"));
    printf("context         " INT " tokens\n", fact(facts, "context_tokens"));
    printf("vocabulary      " INT "\n", fact(facts, "vocabulary"));
    printf("head            %s\n", json_is_true(json_object_get(facts, "head_is_tied"))
                                       ? "the embeddings (tied)"
                                       : "lm_head.weight");
    printf("digest          %s\n", fact_text(facts, "digest"));
}

/* What memory allows: a token of one sequence reads the weights, and the K and V of all tokens before it; recurrent state is read and
 * written. */
static double tokens_per_second(const json_t *facts, json_int_t context)
{
    const json_int_t bytes = fact(facts, "weight_bytes_per_token") +
                             2 * fact(facts, "recurrent_state_bytes") +
                             (context > 0 ? fact(facts, "kv_long_bytes") : 0);
    return json_real_value(json_object_get(facts, "read_bytes_per_second")) / (double)bytes;
}

static void print_speed(const json_t *facts)
{
    const json_int_t context = fact(facts, "context_tokens") < LONG_CONTEXT
                                   ? fact(facts, "context_tokens")
                                   : LONG_CONTEXT;
    if (fact(facts, "weight_bytes_per_token") == 0 || tokens_per_second(facts, 0) <= 0)
        return;
    printf(
        "speed           a token reads %.1f MiB of weights; this machine reads %.1f GB/s: memory "
        "allows about %.1f tokens/s of one sequence, %.1f behind " INT " tokens\n",
        mib(facts, "weight_bytes_per_token"),
        json_real_value(json_object_get(facts, "read_bytes_per_second")) / 1e9,
        tokens_per_second(facts, 0), tokens_per_second(facts, context), context);
}

/* "windows   15 of 18 layers see 512 tokens: 32768 tokens take 34.1 MiB, 180.0 MiB if all layers kept them" */
static void print_windows(const json_t *facts)
{
    const json_t *windows = json_object_get(facts, "windows");
    if (!windows)
        return;
    printf("windows         " INT " of " INT " layers see " INT, fact(windows, "layers"),
           fact(facts, "layers"), fact(windows, "least"));
    if (fact(windows, "most") != fact(windows, "least"))
        printf(" to " INT, fact(windows, "most"));
    printf(" tokens: KV of " INT " tokens takes %.1f MiB, %.1f MiB if all layers kept them\n",
           fact(windows, "sequence_tokens"), mib(windows, "sequence_bytes"),
           mib(windows, "sequence_bytes_whole"));
}

/* "experts 30 of 30 layers have 128 experts, 8 for each token, beside the MLP"
 * "wide   7 of 35 layers have heads of 512, 1 for K and V: 32768 tokens have 0.0 MiB of padding"
 * "shared 20 of 35 layers read K and V of others" */
static void print_unequal(const json_t *facts)
{
    const json_t *wide = json_object_get(facts, "wide");
    const json_t *experts = json_object_get(facts, "experts");
    if (experts)
        printf("experts         " INT " of " INT " layers have " INT " experts, " INT
               " for each token%s\n",
               fact(experts, "layers"), fact(facts, "layers"), fact(experts, "n"),
               fact(experts, "per_token"),
               json_is_true(json_object_get(experts, "beside_mlp")) ? ", beside the MLP" : "");
    if (wide)
        printf("wide            " INT " of " INT " layers have heads of " INT ", " INT
               " for K and V: " INT " tokens have %.1f MiB of padding\n",
               fact(wide, "layers"), fact(facts, "layers"), fact(wide, "head_dim"),
               fact(wide, "kv_heads"), fact(wide, "sequence_tokens"), mib(wide, "padding_bytes"));
    if (fact(facts, "layers_that_read_others") > 0)
        printf("shared          " INT " of " INT " layers read K and V of others\n",
               fact(facts, "layers_that_read_others"), fact(facts, "layers"));
}

/* "sinks   a token of a reply sees the first 4 tokens and the last 508: a reply of up to 1048576 takes 17.9 MiB" */
static void print_sinks(const json_t *facts)
{
    const json_t *sinks = json_object_get(facts, "sinks");
    if (sinks)
        printf("sinks           a token of a reply sees the first " INT " tokens and the last " INT
               ": a sequence of up to " INT " takes %.1f MiB behind its prompt\n",
               fact(sinks, "sinks"), fact(sinks, "window") - fact(sinks, "sinks"),
               fact(sinks, "tokens"), mib(sinks, "bytes"));
}

/* "latents   512 elements and 64 of RoPE a token and layer: 32768 tokens take 949.2 MiB, 8640.0 MiB as K and V of heads" */
static void print_latents(const json_t *facts)
{
    const json_t *latents = json_object_get(facts, "latents");
    if (!latents)
        return;
    printf("latents         " INT " elements and " INT " of RoPE a token and layer: KV of " INT
           " tokens takes %.1f MiB, %.1f MiB as K and V of heads\n",
           fact(latents, "latent_dim"), fact(latents, "rope_dim"), fact(latents, "sequence_tokens"),
           mib(latents, "sequence_bytes"), mib(latents, "sequence_bytes_of_heads"));
}

static void print_memory(const json_t *facts)
{
    state_facts_print(facts, stdout);
    print_sinks(facts);
    printf("kv              " INT " bytes a token, %s\n", fact(facts, "kv_bytes_per_token"),
           fact_text(facts, "kv_dtype"));
    print_windows(facts);
    print_unequal(facts);
    print_latents(facts);
    if (strcmp(fact_text(facts, "kv_scales"), "none") == 0)
        puts("                no scales for --kv-dtype int8: kvferry calibrate makes them");
    else
        printf("                scales for --kv-dtype int8 and e4m3: %s\n",
               strcmp(fact_text(facts, "kv_scales"), "file") == 0 ? KV_SCALES_FILE
                                                                  : "those of the checkpoint");
    if (json_object_get(facts, "kv_scales_error"))
        printf("                those of the checkpoint are left out: %s\n",
               fact_text(facts, "kv_scales_error"));
    printf("memory          %.1f MiB available", mib(facts, "memory_available_bytes"));
    if (fact(facts, "memory_limit_bytes") > 0)
        printf(", under a limit of %.1f MiB", mib(facts, "memory_limit_bytes"));
    printf("\ncontext here    " INT " tokens in a worker, " INT " in each of serve's two\n",
           fact(facts, "context_that_fits_worker"), fact(facts, "context_that_fits_serve"));
    if (fact(facts, "context_that_fits_serve") == 0)
        puts("                less than the weights and a block: not on this machine now");
    else if (fact(facts, "context_that_fits_serve") < fact(facts, "context_tokens"))
        printf("                serve it with --max-context-tokens " INT " or fewer\n",
               fact(facts, "context_that_fits_serve"));
}

/* A text with an id that the model lacks is refused at request time; all others are served. */
static void print_tokenizer(const json_t *report)
{
    json_int_t n_ids = fact(report, "tokenizer_ids");
    json_int_t vocabulary = fact(report, "vocabulary");
    printf("tokenizer       " INT " ids\n", n_ids);
    if (n_ids > vocabulary)
        printf("                the model has those below " INT
               ": texts that make others are refused\n",
               vocabulary);
    split_costs_print(report, stdout);
}

static void print_lines(const json_t *report)
{
    folder_report_print(report, stdout);
    if (json_object_get(report, "kv_dtype")) {
        putchar('\n');
        print_model(report);
        print_memory(report);
        print_speed(report);
        attention_facts_print(report, stdout);
    }
    if (json_object_get(report, "tokenizer_ids"))
        print_tokenizer(report);
    if (json_object_get(report, "manifest_files"))
        printf("manifest        " INT " files have their digests\n",
               fact(report, "manifest_files"));
    if (json_is_true(json_object_get(report, "serves")))
        puts("good");
}

/* ---- the command ---- */

static enum status check(const char *folder, const struct check_model_config *values,
                         struct error *error)
{
    json_t *report;
    uint32_t n_files = 0;
    if (values->manifest[0]) /* before any other file is read */
        TRY(manifest_check(values->manifest, folder, &n_files, error));
    TRY(folder_report_make(folder, &report, error));
    if (values->manifest[0])
        json_object_set_new(report, "manifest_files", json_integer(n_files));
    enum status status = add_facts(report, folder, values, error);
    json_object_set_new(report, "serves", json_boolean(status == STATUS_OK));
    if (status != STATUS_OK)
        json_object_set_new(report, "error",
                            json_string(error->text[0] ? error->text : status_text(status)));
    if (values->json) {
        json_dumpf(report, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
        putchar('\n');
    } else {
        print_lines(report);
    }
    json_decref(report);
    return status;
}

int check_model_main(const struct config_input *input)
{
    struct check_model_config values;
    struct config *config;
    int exit_status;
    if (command_configure(check_model_config_table(), input, &values, &config, &exit_status))
        return exit_status;
    interrupt_ends();
    struct error error = {0};
    enum status status = check(config_positional(config, 0), &values, &error);
    (void)output_write("", 0); /* before the error; a failed write is reported at the end */
    if (status != STATUS_OK)
        fprintf(stderr, "%s: %s: %s\n", input->command, status_name(status),
                error.text[0] ? error.text : status_text(status));
    config_destroy(config);
    return status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
