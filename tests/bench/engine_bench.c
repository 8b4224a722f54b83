/*
 * engine_bench - what a step costs an engine beside the model: microseconds a step of the generation engine and of the
 * context engine, by tenants.
 *
 *     engine_bench [SEQUENCES]      256 by default
 *
 * A step is all that an engine does in one round: messages, limits, admission with its look into the prefix cache,
 * the batch, what came of it, figures. The forward pass and the drawing of tokens are replaced by nothing (the linker's
 * --wrap: CMakeLists.txt), the network by the simulated one, which is not counted. A request has 32 to 511 tokens of
 * prompt, no two the same beginning, and 64 to 255 new ones; who ends is replaced, so that SEQUENCES run and as many
 * wait; chunks and batches as workers have them unless told. batch: pieces a step, on average. What a context engine
 * pays is by the prompts that come and go in a step, rather than by those that it holds.
 */
#include "base/clock.h"
#include "base/random.h"
#include "ctx_worker/ctx_engine.h"
#include "gen_worker/gen_engine.h"
#include "kvtransfer/drivers/sim/sim_transport.h"
#include "model/sampling/draws.h"
#include "worker_common/worker.h"
#include "worker_common/worker_forward.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS          2000u
#define ROUNDS         3
#define BLOCK_TOKENS   16u
#define CONTEXT_TOKENS 768u
#define VOCABULARY     96u
#define BATCH_TOKENS   1024u
#define TRANSFERS_MAX  64u
#define GOAL_US        50.0 /* at 256 sequences */

/* ---- instead of the model ---- */

enum status __wrap_forward_run(struct forward *forward, const struct forward_sequence *sequences,
                               uint32_t n_sequences, uint32_t n_contexts, float *logits_out);
uint32_t __wrap_sampler_draw_row(struct sampler *sampler, const struct draw *draw,
                                 const float *logits);

static uint64_t n_pieces; /* of all batches */

enum status __wrap_forward_run(struct forward *forward, const struct forward_sequence *sequences,
                               uint32_t n_sequences, uint32_t n_contexts, float *logits_out)
{
    (void)forward, (void)sequences, (void)n_contexts, (void)logits_out;
    n_pieces += n_sequences;
    return STATUS_OK;
}

/* Parameters: the sampler's own. */
uint32_t __wrap_sampler_draw_row(struct sampler *sampler, const struct draw *draw,
                                 const float *logits)
{
    (void)sampler, (void)logits;
    *draw->logprobs = (struct token_logprobs){0};
    return 5;
}

/* ---- what is asked ---- */

struct stream {
    uint32_t index;
    bool has_ended, is_sealed;
};

struct bench {
    struct random random;
    uint32_t sequences, n_tenants, n_asked;
    uint64_t now_ns; /* the engine's */
    struct device *device;
    struct model *model;
    struct geometry geometry;
    struct forward *forward;
    struct sim_fabric *fabric;
    struct transport *transport;
    struct block_pool *pool;
    struct kv_sender *sender;
    struct kv_receiver *receiver;
    struct gen_engine *gen; /* one of the two */
    struct ctx_engine *ctx;
    struct stream *streams; /* [2 * sequences] */
    uint32_t tokens[CONTEXT_TOKENS];
};

static struct engine_request_input draw_input(struct bench *bench, char name_out[16],
                                              struct sampling_params *sampling_out)
{
    uint32_t n_tokens = 32 + (uint32_t)random_below(&bench->random, 480);
    for (uint32_t i = 0; i < n_tokens; i++)
        bench->tokens[i] = 3 + (uint32_t)random_below(&bench->random, VOCABULARY - 3);
    snprintf(name_out, 16, "r%u", bench->n_asked++);
    *sampling_out = SAMPLING_GREEDY;
    sampling_out->max_tokens = 64 + (uint32_t)random_below(&bench->random, 192);
    sampling_out->ignore_eos = true;
    return (struct engine_request_input){
        .request_id = name_out,
        .token_ids = bench->tokens,
        .n_tokens = n_tokens,
        .sampling = sampling_out,
        .deadline_ns = DEADLINE_NONE,
        .standing = {.tenant = 1 + random_below(&bench->random, bench->n_tenants),
                     .weight = 1,
                     .priority = (int32_t)random_below(&bench->random, 3)}};
}

static void ask(struct bench *bench, struct stream *stream)
{
    char name[16];
    struct sampling_params sampling;
    const struct engine_request_input input = draw_input(bench, name, &sampling);
    struct error error = {""};
    enum status status;
    *stream = (struct stream){.index = bench->n_asked};
    if (bench->gen) {
        const struct gen_request request = {.input = input, .context_worker = ""};
        status = gen_engine_generate(bench->gen, stream, &request, &error);
    } else {
        struct ctx_prefill_request request = {.input = input, .caller = 1, .caller_incarnation = 2};
        request.callee_incarnation = 1;
        memcpy(request.transfer_id.bytes, name, sizeof name);
        status = ctx_engine_prefill(bench->ctx, stream, &request, &error);
    }
    if (status != STATUS_OK)
        fprintf(stderr, "%s\n", error.text);
    assert(status == STATUS_OK);
}

static uint64_t now_ns(void *arg)
{
    return ((struct bench *)arg)->now_ns;
}

/* ---- the engines ---- */

static enum status on_tokens(void *arg, void *stream, const struct gen_tokens *tokens)
{
    (void)arg, (void)stream, (void)tokens;
    return STATUS_OK;
}

static void on_gen_finish(void *arg, void *stream, const struct gen_finish *finish)
{
    (void)arg;
    assert(finish->status == STATUS_OK);
    ((struct stream *)stream)->has_ended = true;
}

static void on_ctx_event(void *arg, void *stream, const struct prefill_event *event)
{
    (void)arg;
    ((struct stream *)stream)->is_sealed |= event->kind == EVENT_SEALED;
}

static void on_ctx_finish(void *arg, void *stream, enum status status, const char *sentence)
{
    (void)arg, (void)sentence;
    assert(status == STATUS_CANCELLED);
    ((struct stream *)stream)->has_ended = true;
}

static enum status open_parts(struct bench *bench, struct error *error)
{
    const struct sim_options network = {.seed = 1};
    TRY(device_open("cpu", &bench->device, error));
    TRY(model_load(KVFERRY_SOURCE_DIR "/tests/golden/models/llama_t4", NULL, error, &bench->model));
    TRY(worker_geometry(bench->model, WORKER_KV_F32, NULL, BLOCK_TOKENS, error, &bench->geometry));
    uint32_t n_blocks = bench->sequences * 30;
    TRY(block_pool_create(n_blocks, geometry_block_bytes(&bench->geometry), &bench->pool));
    const struct worker_step step = {.tokens_max = BATCH_TOKENS + bench->sequences,
                                     .sequences_max = bench->sequences,
                                     .context_tokens = CONTEXT_TOKENS,
                                     .device = bench->device};
    TRY(worker_forward_create(bench->model, &bench->geometry, &step, error, &bench->forward));
    TRY(forward_attach(bench->forward, bench->pool, error));
    TRY(sim_fabric_create(&network, &bench->fabric));
    TRY(sim_transport_open(bench->fabric, 1, 1, &bench->transport));
    const struct kv_sender_options sender = {.transfers_max = bench->sequences,
                                             .blocks_max = CONTEXT_TOKENS / BLOCK_TOKENS,
                                             .device = bench->device,
                                             .pool_base = block_pool_base(bench->pool),
                                             .block_bytes = block_pool_block_bytes(bench->pool),
                                             .n_blocks = n_blocks};
    const struct kv_receiver_options receiver = {.transfers_max = TRANSFERS_MAX,
                                                 .blocks_max = CONTEXT_TOKENS / BLOCK_TOKENS,
                                                 .peers_max = 4,
                                                 .window_max = 4,
                                                 .device = bench->device,
                                                 .pool_base = block_pool_base(bench->pool),
                                                 .block_bytes = block_pool_block_bytes(bench->pool),
                                                 .n_blocks = n_blocks,
                                                 .quiet_limit_ns = NS_PER_S};
    TRY(kv_sender_create(&sender, bench->transport, &bench->sender));
    return kv_receiver_create(&receiver, bench->transport, &bench->receiver);
}

static enum status open_gen(struct bench *bench, struct error *error)
{
    const struct gen_engine_options options = {.name = "gen",
                                               .incarnation = 1,
                                               .model = bench->model,
                                               .forward = bench->forward,
                                               .device = bench->device,
                                               .pool = bench->pool,
                                               .receiver = bench->receiver,
                                               .geometry = bench->geometry,
                                               .vocabulary = VOCABULARY,
                                               .context_tokens = CONTEXT_TOKENS,
                                               .chunk_tokens = 512,
                                               .batch_tokens = BATCH_TOKENS,
                                               .sequences_max = bench->sequences,
                                               .queue_max = 2 * bench->sequences,
                                               .priority_aging_ms = 1000,
                                               .streams_max = 4 * bench->sequences,
                                               .prefills_max = TRANSFERS_MAX,
                                               .events_max = 64,
                                               .local_prefill = true,
                                               .prefix_cache = true,
                                               .queue_limit_ns = DEADLINE_NONE / 2,
                                               .context_limit_ns = NS_PER_S,
                                               .context_limit_tokens = 512,
                                               .transfer_limit_ns = NS_PER_S,
                                               .commit_limit_ns = NS_PER_S};
    const struct gen_engine_ops ops = {
        .arg = bench, .now_ns = now_ns, .tokens = on_tokens, .finish = on_gen_finish};
    return gen_engine_create(&options, &ops, error, &bench->gen);
}

static enum status open_ctx(struct bench *bench, struct error *error)
{
    const struct ctx_engine_options options = {.name = "ctx",
                                               .incarnation = 1,
                                               .model = bench->model,
                                               .forward = bench->forward,
                                               .device = bench->device,
                                               .pool = bench->pool,
                                               .sender = bench->sender,
                                               .geometry = bench->geometry,
                                               .vocabulary = VOCABULARY,
                                               .context_tokens = CONTEXT_TOKENS,
                                               .chunk_tokens = 512,
                                               .batch_tokens = BATCH_TOKENS,
                                               .slots_max = bench->sequences,
                                               .queue_max = 2 * bench->sequences,
                                               .streams_max = 4 * bench->sequences,
                                               .calls_max = 4,
                                               .caller_share = 100,
                                               .priority_aging_ms = 1000,
                                               .queue_limit_ns = DEADLINE_NONE / 2,
                                               .lease_limit_ns = DEADLINE_NONE / 2,
                                               .prefix_cache = true};
    const struct ctx_engine_ops ops = {
        .arg = bench, .now_ns = now_ns, .event = on_ctx_event, .finish = on_ctx_finish};
    return ctx_engine_create(&options, &ops, error, &bench->ctx);
}

static void close_all(struct bench *bench)
{
    gen_engine_destroy(bench->gen);
    ctx_engine_destroy(bench->ctx);
    kv_receiver_destroy(bench->receiver);
    kv_sender_destroy(bench->sender);
    bench->transport->ops->close(bench->transport);
    block_pool_destroy(bench->pool);
    sim_fabric_destroy(bench->fabric);
    forward_destroy(bench->forward);
    model_destroy(bench->model);
    device_close(bench->device);
    free(bench->streams);
}

/* ---- measuring ---- */

struct figures {
    double mean_us, p50_us, p99_us, n_batch;
};

static int compare(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;
    return (first > second) - (first < second);
}

/* Whose prompt was computed has read it, and leaves; who has ended comes again. */
static void replace_ended(struct bench *bench)
{
    for (uint32_t i = 0; i < 2 * bench->sequences; i++) {
        struct stream *stream = &bench->streams[i];
        if (stream->has_ended)
            ask(bench, stream);
        else if (stream->is_sealed)
            ctx_engine_stream_ended(bench->ctx, stream);
        stream->is_sealed = false;
    }
    kv_sender_progress(bench->sender, bench->now_ns);
}

static struct figures measure(bool is_gen, uint32_t sequences, uint32_t n_tenants)
{
    static uint64_t step_ns[STEPS];
    struct bench *bench = calloc(1, sizeof *bench);
    struct error error = {""};
    uint64_t sum_ns = 0;
    assert(bench);
    bench->sequences = sequences;
    bench->n_tenants = n_tenants;
    bench->now_ns = NS_PER_S;
    bench->streams = calloc(2 * (size_t)sequences, sizeof *bench->streams);
    random_init(&bench->random, 1);
    enum status status = open_parts(bench, &error);
    if (status == STATUS_OK)
        status = is_gen ? open_gen(bench, &error) : open_ctx(bench, &error);
    if (status != STATUS_OK)
        fprintf(stderr, "%s\n", error.text);
    assert(status == STATUS_OK && bench->streams);
    for (uint32_t i = 0; i < 2 * sequences; i++)
        ask(bench, &bench->streams[i]);
    for (uint32_t i = 0; i < STEPS / 4; i++) { /* until arrivals and ends are spread */
        is_gen ? gen_engine_step(bench->gen, bench->now_ns)
               : ctx_engine_step(bench->ctx, bench->now_ns);
        replace_ended(bench);
    }
    n_pieces = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        bench->now_ns += NS_PER_MS;
        uint64_t begin_ns = clock_now_ns();
        is_gen ? gen_engine_step(bench->gen, bench->now_ns)
               : ctx_engine_step(bench->ctx, bench->now_ns);
        step_ns[i] = clock_now_ns() - begin_ns;
        sum_ns += step_ns[i];
        replace_ended(bench);
    }
    qsort(step_ns, STEPS, sizeof *step_ns, compare);
    close_all(bench);
    free(bench);
    return (struct figures){.mean_us = (double)sum_ns / STEPS / NS_PER_US,
                            .p50_us = (double)step_ns[STEPS / 2] / NS_PER_US,
                            .p99_us = (double)step_ns[STEPS * 99 / 100] / NS_PER_US,
                            .n_batch = (double)n_pieces / STEPS};
}

int main(int argc, char **argv)
{
    long sequences = argc > 1 ? strtol(argv[1], NULL, 10) : 256;
    if (sequences < 1 || sequences > 4096) {
        fprintf(stderr, "engine_bench [SEQUENCES], 1 to 4096\n");
        return 2;
    }
    printf("%ld sequences, us a step without the model, best of %d; the goal at 256 is %.0f\n",
           sequences, ROUNDS, GOAL_US);
    printf("engine      tenants  batch     mean      p50      p99\n");
    for (int is_gen = 1; is_gen >= 0; is_gen--)
        for (uint32_t n_tenants = 1; n_tenants <= 256; n_tenants *= 16) {
            struct figures best = {.mean_us = 1e9};
            for (int i = 0; i < ROUNDS; i++) {
                struct figures figures = measure(is_gen, (uint32_t)sequences, n_tenants);
                if (figures.mean_us < best.mean_us)
                    best = figures;
            }
            printf("%-10s %8u %6.0f %8.1f %8.1f %8.1f\n", is_gen ? "generation" : "context",
                   n_tenants, best.n_batch, best.mean_us, best.p50_us, best.p99_us);
            fflush(stdout);
        }
    return 0;
}
