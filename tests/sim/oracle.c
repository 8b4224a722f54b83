#include "tests/sim/oracle.h"

#include "model/adapter/adapter.h"
#include "model/config/encoder_config.h"
#include "model/config/kv_layers.h"
#include "model/sampling/logprobs.h"
#include "tests/sim/sinks_folder.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BLOCK_TOKENS = 16,
    N_BLOCKS = ORACLE_CONTEXT_TOKENS / BLOCK_TOKENS,
    N_BLOCKS_MAX = 8 * N_BLOCKS + 64,                    /* with those of a state */
    N_REPLY_BLOCKS = ORACLE_LONG_MAX / BLOCK_TOKENS + 1, /* behind an encoder's text */
    ADAPTER_RANK = 7,
    ORACLE_WINDOWS = 4, /* the model whose layers all have a window */
    N_SINKS_BLOCKS = (ORACLE_SINKS_CONTEXT + ORACLE_SINKS_REPLY) / BLOCK_TOKENS,
    ALL_MODELS = ORACLE_MODELS + 1
};

static const char *const FOLDERS[ORACLE_MODELS] = {
    KVFERRY_SOURCE_DIR "/tests/golden/models/llama_t4",
    KVFERRY_SOURCE_DIR "/tests/golden/models/qwen3_t4",
    KVFERRY_SOURCE_DIR "/tests/golden/models/gemma3_t4",         /* three layers with a window */
    KVFERRY_SOURCE_DIR "/tests/golden/models/gpt_oss_t5",        /* every other one */
    KVFERRY_SOURCE_DIR "/tests/golden/models/mistral_t4_window", /* all */
    KVFERRY_SOURCE_DIR "/tests/golden/models/smollm3_t4",        /* one of four, forced */
    KVFERRY_SOURCE_DIR "/tests/golden/models/qwen3_5_t5", /* three of four have recurrent state */
    KVFERRY_SOURCE_DIR "/tests/golden/models/gemma4_t5_k_is_v", /* six, with other heads */
    KVFERRY_SOURCE_DIR "/tests/golden/encoders/t5_v1_1",
    KVFERRY_SOURCE_DIR "/tests/golden/encoders/bart",
    KVFERRY_SOURCE_DIR "/tests/golden/models/deepseek_v2_t4",
};

/* Made for another model of the same shape. */
static const char *const ADAPTER_FOLDERS[ORACLE_ADAPTERS] = {
    KVFERRY_SOURCE_DIR "/tests/golden/adapters/llama",
    KVFERRY_SOURCE_DIR "/tests/golden/adapters/llama_other",
};

struct answer {
    uint32_t n_known;
    uint32_t tokens[ORACLE_LONG_MAX];
};

/* Of the longest prompt of a family; others are its beginnings. */
struct scores {
    bool is_known;
    float logprobs[ORACLE_PROMPT_MAX];
};

#define KV_LARGEST 12.0 /* of K and V, for caches of 8 bits */

struct oracle {
    struct device *device;
    struct model *models[ALL_MODELS];
    struct kv_scales kv_scales[ALL_MODELS];
    uint32_t n_blocks[ALL_MODELS]; /* of the one sequence, in all groups */
    struct block_pool *pools[ALL_MODELS][ORACLE_DTYPES];
    struct forward *forwards[ALL_MODELS][ORACLE_DTYPES];
    struct sampler *samplers[ALL_MODELS];
    /* With sinks: [ORACLE_SINKS_REPLY], of which n are known; made when they are asked for. */
    struct long_answer {
        uint32_t n;
        uint32_t *tokens;
    } long_answers[ORACLE_DTYPES][ORACLE_VARIANTS][ORACLE_FAMILIES][2][ORACLE_SINKS_CONTEXT + 1];
    float *logits;
    struct answer answers[ORACLE_MODELS][1 + ORACLE_ADAPTERS][ORACLE_DTYPES][ORACLE_VARIANTS]
                         [ORACLE_FAMILIES][ORACLE_PROMPT_MAX + 1];
    struct scores scores[ORACLE_MODELS][1 + ORACLE_ADAPTERS][ORACLE_DTYPES][ORACLE_FAMILIES];
    struct request_adapter adapters[ALL_MODELS][ORACLE_ADAPTERS];
};

static void must(enum status status, const struct error *error, const char *what)
{
    if (status == STATUS_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, status_name(status), error ? error->text : "");
    abort();
}

static uint32_t spans_of(uint32_t model)
{
    if (model == ORACLE_SINKS_MODEL)
        return N_SINKS_BLOCKS;
    return oracle_has_encoder(model) ? N_BLOCKS + N_REPLY_BLOCKS : N_BLOCKS;
}

bool oracle_has_encoder(uint32_t model)
{
    return model == ORACLE_T5 || model == ORACLE_BART;
}

/* Of the models with an encoder: the token that begins a reply. */
static uint32_t start_id(uint32_t model)
{
    return model == ORACLE_BART ? 2 : 0;
}

static uint32_t text_max(uint32_t model)
{
    return model == ORACLE_BART ? ORACLE_BART_MAX : ORACLE_PROMPT_MAX;
}

static void open_forward(struct oracle *oracle, uint32_t model, enum cache_dtype dtype)
{
    struct error error = {""};
    const struct model_config *config = model_get_config(oracle->models[model]);
    const size_t block_bytes = forward_block_bytes(config, BLOCK_TOKENS, dtype);
    const bool has_sinks = model == ORACLE_SINKS_MODEL;
    const uint32_t n_spans = spans_of(model);
    struct cache_groups groups;
    kv_layers_divide_whole(config, &groups);
    groups.n_state = state_layout_blocks(config, block_bytes);
    oracle->n_blocks[model] = n_spans * cache_groups_count(&groups);
    assert(has_sinks || oracle->n_blocks[model] + groups.n_state <= N_BLOCKS_MAX);
    must(block_pool_create(oracle->n_blocks[model] + groups.n_state,
                           forward_group_bytes(config, &groups, BLOCK_TOKENS, dtype),
                           &oracle->pools[model][dtype]),
         NULL, "pool");
    const struct forward_options options = {.block_tokens = BLOCK_TOKENS,
                                            .cache_dtype = dtype,
                                            .tokens_max = has_sinks ? ORACLE_SINKS_CONTEXT
                                                                    : ORACLE_CONTEXT_TOKENS,
                                            .encoder_tokens_max = text_max(model),
                                            .sequences_max = 1,
                                            .blocks_max = n_spans,
                                            .groups = groups,
                                            .adapter_rank_max = oracle_adapter_rank(model),
                                            .sinks = oracle_sinks(model),
                                            .device = oracle->device,
                                            .kv_scales = &oracle->kv_scales[model]};
    must(forward_create(oracle->models[model], &options, &error, &oracle->forwards[model][dtype]),
         &error, "forward");
    must(forward_attach(oracle->forwards[model][dtype], oracle->pools[model][dtype], &error),
         &error, "pool of the forward");
}

bool oracle_has_adapters(uint32_t model)
{
    return model == 0 || model == ORACLE_WINDOWS;
}

uint32_t oracle_adapter_rank(uint32_t model)
{
    return oracle_has_adapters(model) ? ADAPTER_RANK : 0;
}

const struct request_adapter *oracle_adapter(const struct oracle *oracle, uint32_t model,
                                             uint32_t number)
{
    assert(number == 0 || oracle_has_adapters(model));
    return number == 0 ? NULL : &oracle->adapters[model][number - 1];
}

static void load_adapters(struct oracle *oracle, uint32_t model)
{
    for (uint32_t i = 0; oracle_has_adapters(model) && i < ORACLE_ADAPTERS; i++) {
        struct error error = {""};
        struct request_adapter *adapter = &oracle->adapters[model][i];
        must(adapter_load(ADAPTER_FOLDERS[i], oracle->models[model], NULL, &error,
                          &adapter->adapter),
             &error, ADAPTER_FOLDERS[i]);
        assert(adapter_rank(adapter->adapter) <= ADAPTER_RANK);
        const struct hash128 digest = adapter_digest(adapter->adapter);
        adapter->id = (struct adapter_id){.digest = {digest.lo, digest.hi}};
        snprintf(adapter->id.name, sizeof adapter->id.name, "%u", i + 1);
        adapter->share = adapter_share;
        adapter->release = adapter_release;
    }
}

static const struct adapter *adapter_of(const struct oracle *oracle,
                                        const struct oracle_question *question)
{
    const struct request_adapter *adapter = oracle_adapter(oracle, question->model,
                                                           question->adapter);
    return adapter ? adapter->adapter : NULL;
}

struct sink_window oracle_sinks(uint32_t model)
{
    const struct sink_window sinks = {ORACLE_SINKS_WINDOW, ORACLE_SINKS_SINKS};
    return model == ORACLE_SINKS_MODEL ? sinks : (struct sink_window){0};
}

struct encoder_line oracle_line(uint32_t model, uint32_t block_tokens)
{
    return (struct encoder_line){.text_max = oracle_has_encoder(model) ? text_max(model) : 0,
                                 .reply_max = ORACLE_LONG_MAX,
                                 .block_tokens = block_tokens,
                                 .start_id = start_id(model)};
}

struct oracle *oracle_create(void)
{
    struct oracle *oracle = calloc(1, sizeof *oracle);
    if (!oracle)
        abort();
    struct error sentence = {""};
    must(device_open("cpu", &oracle->device, &sentence), &sentence, "device");
    uint32_t vocabulary_max = 0;
    char longer[SINKS_PATH_MAX];
    sinks_folder_make(FOLDERS[0], longer);
    for (uint32_t i = 0; i < ALL_MODELS; i++) {
        struct error error = {""};
        const struct model_options options = {
            .attention_window = i == ORACLE_FULL_GROUPS ? "0,0,0,12" : "", .force_window = true};
        const char *folder = i == ORACLE_SINKS_MODEL ? longer : FOLDERS[i];
        must(model_load(folder, &options, &error, &oracle->models[i]), &error, folder);
        uint32_t vocabulary = model_get_config(oracle->models[i])->vocabulary;
        must(kv_scales_alike(kv_layers_count(model_get_config(oracle->models[i])), KV_LARGEST,
                             &oracle->kv_scales[i]),
             NULL, "scales");
        if (vocabulary > vocabulary_max)
            vocabulary_max = vocabulary;
        must(sampler_create(vocabulary, model_kernels(oracle->models[i]), &oracle->samplers[i]),
             NULL, "sampler");
        load_adapters(oracle, i);
        for (enum cache_dtype dtype = 0; dtype < ORACLE_DTYPES; dtype++)
            open_forward(oracle, i, dtype);
    }
    for (uint32_t i = ORACLE_T5; i <= ORACLE_BART; i++)
        assert(model_get_config(oracle->models[i])->encoder.start_id == start_id(i));
    assert(oracle_forced_last(oracle, ORACLE_BART) != TOKEN_NONE);
    sinks_folder_remove(longer);
    oracle->logits = calloc(vocabulary_max, sizeof *oracle->logits);
    if (!oracle->logits)
        abort();
    return oracle;
}

void oracle_destroy(struct oracle *oracle)
{
    struct long_answer *answers = &oracle->long_answers[0][0][0][0][0];
    for (size_t i = 0; i < sizeof oracle->long_answers / sizeof *answers; i++)
        free(answers[i].tokens);
    for (uint32_t i = 0; i < ALL_MODELS; i++) {
        for (uint32_t dtype = 0; dtype < ORACLE_DTYPES; dtype++) {
            forward_destroy(oracle->forwards[i][dtype]);
            block_pool_destroy(oracle->pools[i][dtype]);
        }
        for (uint32_t adapter = 0; adapter < ORACLE_ADAPTERS; adapter++)
            adapter_release(oracle->adapters[i][adapter].adapter);
        sampler_destroy(oracle->samplers[i]);
        kv_scales_finish(&oracle->kv_scales[i]);
        model_destroy(oracle->models[i]);
    }
    device_close(oracle->device);
    free(oracle->logits);
    free(oracle);
}

const struct kv_scales *oracle_kv_scales(const struct oracle *oracle, uint32_t model)
{
    return &oracle->kv_scales[model];
}

const struct model *oracle_model(const struct oracle *oracle, uint32_t model)
{
    return oracle->models[model];
}

void oracle_prompt(const struct oracle *oracle, uint32_t model, uint32_t family, uint32_t n_tokens,
                   uint32_t *tokens_out)
{
    static const uint32_t SHARED_TOKENS[ORACLE_FAMILIES] = {0, 8, 17, 32, 48, 64};
    uint32_t vocabulary = model_get_config(oracle->models[model])->vocabulary;
    const bool ends_filled = oracle_has_encoder(model) && family == ORACLE_FILLED;
    for (uint32_t i = 0; i < n_tokens; i++) {
        uint32_t own = i < SHARED_TOKENS[family] || ends_filled ? 0 : family;
        uint64_t mixed = (own * 1000003ull + i + 1) * 0x9e3779b97f4a7c15ull;
        tokens_out[i] = 3 + (uint32_t)((mixed >> 33) % (vocabulary - 3));
    }
    if (ends_filled)
        tokens_out[n_tokens - 1] = start_id(model);
}

uint32_t oracle_forced_last(const struct oracle *oracle, uint32_t model)
{
    const struct model_config *config = model_get_config(oracle->models[model]);
    return model_has_encoder(config) ? config->encoder.forced_last_id : TOKEN_NONE;
}

struct sampling_params oracle_sampling(uint32_t variant)
{
    struct sampling_params params = SAMPLING_GREEDY;
    if (variant == 0)
        return params;
    params.temperature = 0.8f + 0.2f * (float)variant;
    params.seed = 1000 + variant;
    if (variant == 2) {
        params.top_k = 20;
        params.eta_cutoff = 0.02f;
    }
    if (variant == 3) {
        params.top_p = 0.9f;
        params.typical_p = 0.8f;
        params.no_repeat_ngram_size = 3;
    }
    if (variant == 4) {
        params.repetition_penalty = 1.3f;
        params.frequency_penalty = 0.5f;
        params.n_logprobs = 2;
    }
    return params;
}

/* All blocks of the pool: those of tokens, then those of a state. Returns how many. */
static uint32_t acquire(struct block_pool *pool, block_id ids[N_BLOCKS_MAX])
{
    const uint32_t n = block_pool_size(pool);
    must(block_pool_acquire(pool, n, ids), NULL, "blocks");
    return n;
}

static void compute(struct oracle *oracle, const struct oracle_question *question,
                    uint32_t n_tokens, uint32_t *tokens_out)
{
    uint32_t tokens[ORACLE_CONTEXT_TOKENS + 1];
    block_id blocks[N_BLOCKS_MAX];
    struct token_logprobs logprobs;
    struct block_pool *pool = oracle->pools[question->model][question->dtype];
    const struct sampling_params params = oracle_sampling(question->variant);
    uint32_t n = question->n_prompt, n_past = 0;
    oracle_prompt(oracle, question->model, question->family, n, tokens);
    const uint32_t n_blocks = acquire(pool, blocks);
    for (uint32_t i = 0; i < n_tokens; i++) {
        const struct forward_sequence sequence = {.token_ids = tokens + n_past,
                                                  .n_query = n - n_past,
                                                  .n_past = n_past,
                                                  .prompt_len = question->n_prompt,
                                                  .blocks = blocks,
                                                  .n_blocks = N_BLOCKS,
                                                  .state_blocks = blocks +
                                                                  oracle->n_blocks[question->model],
                                                  .wants_logits = true,
                                                  .adapter = adapter_of(oracle, question)};
        must(forward_run(oracle->forwards[question->model][question->dtype], &sequence, 1, i == 0,
                         oracle->logits),
             NULL, "step");
        n_past = n;
        tokens[n] = sampler_draw(oracle->samplers[question->model], &params, oracle->logits, tokens,
                                 question->n_prompt, n, &logprobs);
        tokens_out[i] = tokens[n++];
    }
    block_pool_release(pool, blocks, n_blocks);
}

/* The encoder sees the whole text at once, in both directions; the reply has a table of its own, and draws see it alone. */
static void compute_of_text(struct oracle *oracle, const struct oracle_question *question,
                            uint32_t n_tokens, uint32_t *tokens_out)
{
    uint32_t text[ORACLE_PROMPT_MAX], tokens[1 + ORACLE_LONG_MAX] = {start_id(question->model)};
    const uint32_t first = model_get_config(oracle->models[question->model])
                               ->encoder.forced_first_id;
    block_id blocks[N_BLOCKS_MAX];
    struct token_logprobs logprobs;
    struct block_pool *pool = oracle->pools[question->model][question->dtype];
    struct forward *forward = oracle->forwards[question->model][question->dtype];
    const struct sampling_params params = oracle_sampling(question->variant);
    oracle_prompt(oracle, question->model, question->family, question->n_prompt, text);
    const uint32_t n_blocks = acquire(pool, blocks);
    const struct forward_text whole = {.token_ids = text,
                                       .n_tokens = question->n_prompt,
                                       .cross_blocks = blocks,
                                       .n_cross_blocks = N_BLOCKS};
    must(forward_encode(forward, &whole, 1), NULL, "text");
    for (uint32_t n = 1; n <= n_tokens; n++) {
        const struct forward_sequence sequence = {.token_ids = tokens + n - 1,
                                                  .n_query = 1,
                                                  .n_past = n - 1,
                                                  .prompt_len = 1,
                                                  .blocks = blocks + N_BLOCKS,
                                                  .n_blocks = N_REPLY_BLOCKS,
                                                  .cross_blocks = blocks,
                                                  .n_cross_blocks = N_BLOCKS,
                                                  .n_cross_tokens = question->n_prompt,
                                                  .wants_logits = true};
        must(forward_run(forward, &sequence, 1, n == 1, oracle->logits), NULL, "step");
        tokens[n] = sampler_draw(oracle->samplers[question->model], &params, oracle->logits, tokens,
                                 1, n, &logprobs);
        if (n == 1 && first != TOKEN_NONE)
            tokens[n] = first;
        tokens_out[n - 1] = tokens[n];
    }
    block_pool_release(pool, blocks, n_blocks);
}

/* The prompt sees all; of a reply's table the spans go that no later token sees, and the others move together. */
static void compute_with_sinks(struct oracle *oracle, const struct oracle_question *question,
                               uint32_t n_tokens, uint32_t *tokens_out)
{
    uint32_t tokens[ORACLE_SINKS_CONTEXT + ORACLE_SINKS_REPLY + 1];
    block_id blocks[N_SINKS_BLOCKS], seen[N_SINKS_BLOCKS];
    struct token_logprobs logprobs;
    struct block_pool *pool = oracle->pools[question->model][question->dtype];
    const struct sampling_params params = oracle_sampling(question->variant);
    const struct sink_window all = oracle_sinks(question->model);
    const struct sink_window sinks = sink_window_of(&all, question->reply_window);
    const uint32_t kept = sink_window_kept(&sinks, BLOCK_TOKENS);
    uint32_t n = question->n_prompt, n_past = 0;
    oracle_prompt(oracle, question->model, question->family, n, tokens);
    must(block_pool_acquire(pool, N_SINKS_BLOCKS, blocks), NULL, "blocks");
    for (uint32_t i = 0; i < n_tokens; i++) {
        const uint32_t n_dropped = i == 0 ? 0 : sink_window_dropped(&sinks, BLOCK_TOKENS, n_past);
        for (uint32_t span = 0; span + n_dropped < N_SINKS_BLOCKS; span++)
            seen[span] = blocks[span < kept ? span : span + n_dropped];
        const struct forward_sequence sequence = {.token_ids = tokens + n_past,
                                                  .n_query = n - n_past,
                                                  .n_past = n_past - n_dropped * BLOCK_TOKENS,
                                                  .prompt_len = n,
                                                  .blocks = seen,
                                                  .n_blocks = N_SINKS_BLOCKS - n_dropped,
                                                  .window = i == 0 ? 0 : question->reply_window,
                                                  .wants_logits = true};
        must(forward_run(oracle->forwards[question->model][question->dtype], &sequence, 1, i == 0,
                         oracle->logits),
             NULL, "step");
        n_past = n;
        tokens[n] = sampler_draw(oracle->samplers[question->model], &params, oracle->logits, tokens,
                                 question->n_prompt, n, &logprobs);
        tokens_out[i] = tokens[n++];
    }
    block_pool_release(pool, blocks, N_SINKS_BLOCKS);
}

static const uint32_t *long_answer(struct oracle *oracle, const struct oracle_question *question,
                                   uint32_t n_tokens)
{
    struct long_answer
        *answer = &oracle->long_answers[question->dtype][question->variant][question->family]
                                       [question->reply_window != 0][question->n_prompt];
    if (answer->n >= n_tokens)
        return answer->tokens;
    if (!answer->tokens)
        answer->tokens = calloc(ORACLE_SINKS_REPLY, sizeof *answer->tokens);
    answer->n = n_tokens;
    compute_with_sinks(oracle, question, n_tokens, answer->tokens);
    return answer->tokens;
}

const uint32_t *oracle_answer(struct oracle *oracle, const struct oracle_question *question,
                              uint32_t n_tokens)
{
    if (question->model == ORACLE_SINKS_MODEL)
        return long_answer(oracle, question, n_tokens);
    struct answer *answer = &oracle
                                 ->answers[question->model][question->adapter][question->dtype]
                                          [question->variant][question->family][question->n_prompt];
    if (answer->n_known < n_tokens) {
        answer->n_known = n_tokens <= ORACLE_GENERATED_MAX ? ORACLE_GENERATED_MAX : ORACLE_LONG_MAX;
        (oracle_has_encoder(question->model) ? compute_of_text : compute)(
            oracle, question, answer->n_known, answer->tokens);
    }
    return answer->tokens;
}

/* A token at a time, each as the end of a prompt: these are the bits of a prompt that is computed at once. */
static void score(struct oracle *oracle, const struct oracle_question *question,
                  struct scores *scores)
{
    uint32_t tokens[ORACLE_PROMPT_MAX];
    block_id blocks[N_BLOCKS_MAX];
    const struct model *model = oracle->models[question->model];
    struct block_pool *pool = oracle->pools[question->model][question->dtype];
    oracle_prompt(oracle, question->model, question->family, ORACLE_PROMPT_MAX, tokens);
    const uint32_t n_blocks = acquire(pool, blocks);
    for (uint32_t i = 0; i + 1 < ORACLE_PROMPT_MAX; i++) {
        struct token_logprobs found;
        const struct forward_sequence sequence = {.token_ids = tokens + i,
                                                  .n_query = 1,
                                                  .n_past = i,
                                                  .prompt_len = i + 1,
                                                  .blocks = blocks,
                                                  .n_blocks = N_BLOCKS,
                                                  .state_blocks = blocks +
                                                                  oracle->n_blocks[question->model],
                                                  .wants_logits = true,
                                                  .adapter = adapter_of(oracle, question)};
        must(forward_run(oracle->forwards[question->model][question->dtype], &sequence, 1, 1,
                         oracle->logits),
             NULL, "step");
        logprobs_fill(model_kernels(model), oracle->logits, model_get_config(model)->vocabulary, 0,
                      tokens[i + 1], &found);
        scores->logprobs[i + 1] = found.logprob;
    }
    block_pool_release(pool, blocks, n_blocks);
    scores->is_known = true;
}

const float *oracle_scores(struct oracle *oracle, const struct oracle_question *question)
{
    struct scores *scores = &oracle->scores[question->model][question->adapter][question->dtype]
                                           [question->family];
    if (!scores->is_known)
        score(oracle, question, scores);
    return scores->logprobs;
}

/* ---- whole sequences ---- */

uint32_t oracle_begin_whole(struct oracle *oracle, const struct oracle_question *question,
                            struct oracle_parts *parts_out, uint32_t *tokens_out)
{
    uint32_t text[ORACLE_PROMPT_MAX];
    const bool has_text = oracle_has_encoder(question->model);
    block_id *blocks = calloc(N_BLOCKS_MAX, sizeof *blocks);
    if (!blocks)
        abort();
    *parts_out = (struct oracle_parts){
        .blocks = blocks,
        .n_blocks = acquire(oracle->pools[question->model][question->dtype], blocks),
        .logits = oracle->logits,
        .sampler = oracle->samplers[question->model]};
    oracle_prompt(oracle, question->model, question->family, question->n_prompt,
                  has_text ? text : tokens_out);
    if (!has_text)
        return question->n_prompt;
    const struct forward_text whole = {.token_ids = text,
                                       .n_tokens = question->n_prompt,
                                       .cross_blocks = blocks,
                                       .n_cross_blocks = N_BLOCKS};
    must(forward_encode(oracle->forwards[question->model][question->dtype], &whole, 1), NULL,
         "text");
    tokens_out[0] = start_id(question->model);
    return 1;
}

void oracle_compute_whole(struct oracle *oracle, const struct oracle_question *question,
                          const struct oracle_parts *parts, const uint32_t *tokens,
                          uint32_t n_tokens)
{
    const bool has_text = oracle_has_encoder(question->model);
    const struct forward_sequence sequence = {.token_ids = tokens,
                                              .n_query = n_tokens,
                                              .prompt_len = n_tokens,
                                              .blocks = parts->blocks + (has_text ? N_BLOCKS : 0),
                                              .n_blocks = has_text ? N_REPLY_BLOCKS : N_BLOCKS,
                                              .cross_blocks = has_text ? parts->blocks : NULL,
                                              .n_cross_blocks = has_text ? N_BLOCKS : 0,
                                              .n_cross_tokens = has_text ? question->n_prompt : 0,
                                              .wants_logits = true,
                                              .adapter = adapter_of(oracle, question)};
    must(forward_run(oracle->forwards[question->model][question->dtype], &sequence, 1, 1,
                     oracle->logits),
         NULL, "step");
}

void oracle_end_whole(struct oracle *oracle, const struct oracle_question *question,
                      struct oracle_parts *parts)
{
    block_pool_release(oracle->pools[question->model][question->dtype], parts->blocks,
                       parts->n_blocks);
    free(parts->blocks);
}
