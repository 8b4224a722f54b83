/* watchdog: a step may take as long as it likes while its layers get done; one in which none is done, and a transfer thread that
 * makes no round, are told. Time is an argument, ahead of the clock that the engine's thread looks at. */
#include "kvtransfer/drivers/sim/sim_transport.h"
#include "worker_common/watchdog.h"
#include "worker_common/worker.h"
#include "worker_common/worker_forward.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

#define LIMIT_NS (10 * NS_PER_S)

enum { BLOCK_TOKENS = 16 };

/* An engine whose only step lasts until it is told to end. */
struct held_engine {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool has_begun, may_end;
};

struct rig {
    struct held_engine held;
    struct device *device;
    struct model *model;
    struct forward *forward;
    struct block_pool *pool;
    struct sim_fabric *fabric;
    struct transport *transport;
    struct kv_sender *sender;
    struct transfer_thread *transfer;
    struct engine_thread *engine;
    struct watchdog watchdog;
    uint64_t now_ns;
};

static uint64_t step(void *engine, uint64_t now_ns)
{
    struct held_engine *held = engine;
    pthread_mutex_lock(&held->mutex);
    held->has_begun = true;
    pthread_cond_broadcast(&held->cond);
    while (!held->may_end)
        pthread_cond_wait(&held->cond, &held->mutex);
    pthread_mutex_unlock(&held->mutex);
    return now_ns;
}

static void wait(void *engine, uint64_t until_ns)
{
    (void)engine;
    (void)until_ns;
}

static void wake(void *engine)
{
    (void)engine;
}

static bool is_quiet(void *engine)
{
    (void)engine;
    return true;
}

static void after_step(void *arg, uint64_t step_ns)
{
    (void)arg;
    (void)step_ns;
}

static void open_forward(struct rig *rig)
{
    struct error error = {""};
    struct geometry geometry;
    cr_assert_eq(device_open("cpu", &rig->device, &error), STATUS_OK);
    cr_assert_eq(model_load(KVFERRY_SOURCE_DIR "/tests/golden/models/llama_t4",
                            &(struct model_options){.device = rig->device}, &error, &rig->model),
                 STATUS_OK, "%s", error.text);
    cr_assert_eq(worker_geometry(rig->model, WORKER_KV_F32, NULL, BLOCK_TOKENS, &error, &geometry),
                 STATUS_OK);
    const struct worker_step options = {
        .tokens_max = 64, .sequences_max = 1, .context_tokens = 64, .device = rig->device};
    cr_assert_eq(worker_forward_create(rig->model, &geometry, &options, &error, &rig->forward),
                 STATUS_OK, "%s", error.text);
    cr_assert_eq(block_pool_create(4, geometry_block_bytes(&geometry), &rig->pool), STATUS_OK);
    cr_assert_eq(forward_attach(rig->forward, rig->pool, &error), STATUS_OK);
    const struct kv_sender_options sender = {.transfers_max = 1,
                                             .blocks_max = 4,
                                             .device = rig->device,
                                             .pool_base = block_pool_base(rig->pool),
                                             .block_bytes = block_pool_block_bytes(rig->pool),
                                             .n_blocks = 4};
    cr_assert_eq(kv_sender_create(&sender, rig->transport, &rig->sender), STATUS_OK);
}

static void open_rig(struct rig *rig)
{
    *rig = (struct rig){
        .held = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER}};
    const struct sim_options network = {.seed = 1};
    cr_assert_eq(sim_fabric_create(&network, &rig->fabric), STATUS_OK);
    cr_assert_eq(sim_transport_open(rig->fabric, 1, 77, &rig->transport), STATUS_OK);
    open_forward(rig);
    const struct transfer_thread_options transfer = {
        .name = "transfer", .transport = rig->transport, .sender = rig->sender};
    cr_assert_eq(transfer_thread_start(&transfer, &rig->transfer), STATUS_OK);
    const struct engine_thread_options engine = {.name = "engine",
                                                 .engine = &rig->held,
                                                 .step = step,
                                                 .wait = wait,
                                                 .wake = wake,
                                                 .is_quiet = is_quiet,
                                                 .after_step = after_step};
    cr_assert_eq(engine_thread_start(&engine, &rig->engine), STATUS_OK);
    pthread_mutex_lock(&rig->held.mutex);
    while (!rig->held.has_begun)
        pthread_cond_wait(&rig->held.cond, &rig->held.mutex);
    pthread_mutex_unlock(&rig->held.mutex);
    rig->watchdog = (struct watchdog){.engine = rig->engine,
                                      .forward = rig->forward,
                                      .transfer = rig->transfer,
                                      .transport = rig->transport,
                                      .limit_ns = LIMIT_NS};
    rig->now_ns = clock_now_ns();
}

static void close_rig(struct rig *rig)
{
    pthread_mutex_lock(&rig->held.mutex);
    rig->held.may_end = true;
    pthread_cond_broadcast(&rig->held.cond);
    pthread_mutex_unlock(&rig->held.mutex);
    cr_assert(engine_thread_stop(rig->engine, NS_PER_S));
    transfer_thread_stop(rig->transfer);
    forward_destroy(rig->forward);
    kv_sender_destroy(rig->sender);
    rig->transport->ops->close(rig->transport);
    sim_fabric_destroy(rig->fabric);
    block_pool_destroy(rig->pool);
    model_destroy(rig->model);
    device_close(rig->device);
}

/* So many looks later the transfer thread has made a round in each, as one that is woken does. */
static bool look(struct rig *rig, uint64_t ns)
{
    bool is_stuck = false;
    for (uint64_t passed_ns = 0; passed_ns < ns; passed_ns += NS_PER_S) {
        uint64_t rounds = transfer_thread_rounds(rig->transfer);
        while (transfer_thread_rounds(rig->transfer) == rounds) {
            rig->transport->ops->wake(rig->transport);
            sched_yield();
        }
        rig->now_ns += NS_PER_S;
        is_stuck = watchdog_is_stuck(&rig->watchdog, rig->now_ns);
    }
    return is_stuck;
}

/* A chunk is computed: as if the step did it, which stands still meanwhile. */
static void compute(struct rig *rig)
{
    static const uint32_t TOKENS[BLOCK_TOKENS] = {3, 4, 5};
    const block_id block = 0;
    const struct forward_sequence chunk = {.token_ids = TOKENS,
                                           .n_query = BLOCK_TOKENS,
                                           .prompt_len = 2 * BLOCK_TOKENS,
                                           .blocks = &block,
                                           .n_blocks = 1};
    uint64_t before = forward_layers_done(rig->forward);
    cr_assert_eq(forward_run(rig->forward, &chunk, 1, 1, NULL), STATUS_OK);
    cr_assert_gt(forward_layers_done(rig->forward), before);
}

Test(watchdog, a_step_that_goes_on_is_never_stuck_and_one_that_stands_still_is)
{
    struct rig rig;
    open_rig(&rig);
    for (int i = 0; i < 20; i++) { /* three minutes */
        cr_assert_not(look(&rig, 9 * NS_PER_S), "after %d", i);
        compute(&rig);
    }
    cr_assert_not(look(&rig, 9 * NS_PER_S));
    cr_assert(look(&rig, 3 * NS_PER_S), "12 s without a layer");
    compute(&rig);
    cr_assert_not(look(&rig, NS_PER_S), "it goes on");
    close_rig(&rig);
}
