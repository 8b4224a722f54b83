/* runtime - see runtime.h, and runtime_queue.h for its inside. */
#include "rpc/runtime/runtime.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "rpc/relay/relay.h"
#include "rpc/runtime/cpu_count.h"
#include "rpc/runtime/runtime_queue.h"

#include <assert.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STACK_BYTES      (2u << 20) /* protobuf-c recurses; the guard keeps it to a few levels */
#define FIRST_BEAT_MS    1
#define FIRST_BEAT_LIMIT (10 * NS_PER_S)
#define CPU_GRAIN_NS     NS_PER_MS

struct rpc_runtime {
    grpc_completion_queue *queue;
    pthread_t thread;
    char thread_name[16];
    struct rpc_arena arena;
    atomic_uint_fast64_t epoch;  /* see rpc_queue_publish */
    atomic_uint_fast64_t rounds; /* odd: gRPC is running on the thread */
    clockid_t cpu_clock;         /* of the thread */
    struct rpc_tag beat;
    atomic_bool has_beaten;
    pthread_mutex_t ticks_lock;
    struct rpc_tick *ticks;
};

grpc_completion_queue *rpc_queue(struct rpc_runtime *runtime)
{
    return runtime->queue;
}

struct rpc_arena *rpc_queue_arena(struct rpc_runtime *runtime)
{
    assert(rpc_runtime_is_current(runtime));
    return &runtime->arena;
}

/* gRPC orders a batch before its tag, but the thread sanitizer cannot see that. This release and
 * the acquire in the loop repeat the order in code that the sanitizer sees. */
void rpc_queue_publish(struct rpc_runtime *runtime)
{
    atomic_fetch_add_explicit(&runtime->epoch, 1, memory_order_release);
}

void rpc_queue_start(struct rpc_runtime *runtime, grpc_call *call, const grpc_op *operations,
                     size_t n_operations, struct rpc_tag *tag)
{
    assert(n_operations > 0 && tag->done && tag->owner);
    rpc_queue_publish(runtime);
    grpc_call_error result = grpc_call_start_batch(call, operations, n_operations, tag, NULL);
    if (result != GRPC_CALL_OK)
        log_error("grpc refused a batch: %s", grpc_call_error_to_string(result));
    assert(result == GRPC_CALL_OK);
}

void rpc_queue_add_tick(struct rpc_runtime *runtime, struct rpc_tick *tick)
{
    assert(tick->fn);
    pthread_mutex_lock(&runtime->ticks_lock);
    tick->next = runtime->ticks;
    runtime->ticks = tick;
    pthread_mutex_unlock(&runtime->ticks_lock);
}

void rpc_queue_remove_tick(struct rpc_runtime *runtime, struct rpc_tick *tick)
{
    pthread_mutex_lock(&runtime->ticks_lock);
    struct rpc_tick **place = &runtime->ticks;
    while (*place && *place != tick)
        place = &(*place)->next;
    if (*place)
        *place = tick->next;
    pthread_mutex_unlock(&runtime->ticks_lock);
}

static void run_ticks(struct rpc_runtime *runtime, uint64_t now_ns)
{
    pthread_mutex_lock(&runtime->ticks_lock);
    for (struct rpc_tick *tick = runtime->ticks; tick; tick = tick->next)
        tick->fn(tick->owner, now_ns);
    pthread_mutex_unlock(&runtime->ticks_lock);
}

static void *serve_queue(void *arg)
{
    struct rpc_runtime *runtime = arg;
    pthread_setname_np(pthread_self(), runtime->thread_name);
    uint64_t next_tick_ns = 0;
    gpr_timespec wake_at = gpr_inf_past(GPR_CLOCK_MONOTONIC);

    for (;;) {
        uint64_t now_ns = clock_now_ns();
        if (now_ns >= next_tick_ns) {
            run_ticks(runtime, now_ns);
            next_tick_ns = now_ns + RPC_TICK_MS * NS_PER_MS;
            wake_at = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                   gpr_time_from_millis(RPC_TICK_MS, GPR_TIMESPAN));
        }
        atomic_fetch_add_explicit(&runtime->rounds, 1, memory_order_relaxed);
        grpc_event event = grpc_completion_queue_next(runtime->queue, wake_at, NULL);
        atomic_fetch_add_explicit(&runtime->rounds, 1, memory_order_relaxed);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        if (event.type != GRPC_OP_COMPLETE)
            continue;
        atomic_load_explicit(&runtime->epoch, memory_order_acquire);
        struct rpc_tag *tag = event.tag;
        tag->done(tag, event.success != 0);
    }
}

/* gRPC's messages go to our log. */
static void log_for_grpc(gpr_log_func_args *message)
{
    if (message->severity == GPR_LOG_SEVERITY_ERROR)
        log_warn("grpc: %s", message->message);
    else
        log_debug("grpc: %s", message->message);
}

uint64_t rpc_failed_accepts(void)
{
    return relay_failed_accepts();
}

static enum status start_thread(struct rpc_runtime *runtime, struct error *error)
{
    pthread_attr_t attributes;
    int failed = pthread_attr_init(&attributes);
    if (!failed) {
        pthread_attr_setstacksize(&attributes, STACK_BYTES);
        failed = pthread_create(&runtime->thread, &attributes, serve_queue, runtime);
        pthread_attr_destroy(&attributes);
    }
    if (failed)
        return error_set(error, STATUS_NO_THREAD, "no thread for gRPC's queue: %s",
                         strerror(failed));
    pthread_getcpuclockid(runtime->thread, &runtime->cpu_clock);
    return STATUS_OK;
}

static void on_beat(struct rpc_tag *tag, bool is_ok)
{
    (void)is_ok; /* it timed out, as expected */
    struct rpc_runtime *runtime = tag->owner;
    atomic_store(&runtime->has_beaten, true);
}

/* Waits for one of gRPC's timers, which needs gRPC's timer thread, the queue and the queue's
 * thread: watches a channel that never connects for a moment. */
static enum status await_beat(struct rpc_runtime *runtime, struct error *error)
{
    grpc_channel *channel = grpc_lame_client_channel_create(NULL, GRPC_STATUS_UNAVAILABLE, "");
    gpr_timespec moment = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                                       gpr_time_from_millis(FIRST_BEAT_MS, GPR_TIMESPAN));
    runtime->beat = (struct rpc_tag){on_beat, runtime};
    rpc_queue_publish(runtime);
    grpc_channel_watch_connectivity_state(channel, GRPC_CHANNEL_TRANSIENT_FAILURE, moment,
                                          runtime->queue, &runtime->beat);
    uint64_t until_ns = clock_now_ns() + FIRST_BEAT_LIMIT;
    while (!atomic_load(&runtime->has_beaten) && clock_now_ns() < until_ns)
        (void)poll(NULL, 0, FIRST_BEAT_MS);
    grpc_channel_destroy(channel);
    if (!atomic_load(&runtime->has_beaten))
        return error_set(error, STATUS_NO_THREAD,
                         "gRPC's own threads do not run: is there a limit on threads or address "
                         "space (ulimit -u, ulimit -v)?");
    return STATUS_OK;
}

/* It is not freed: gRPC and the thread, if it was started, still use it. */
static _Atomic(struct rpc_runtime *) abandoned;

enum status rpc_runtime_create(const char *thread_name, struct error *error,
                               struct rpc_runtime **runtime_out)
{
    struct rpc_runtime *runtime = calloc(1, sizeof *runtime);
    if (!runtime)
        return STATUS_NO_MEMORY;
    assert(strlen(thread_name) < sizeof runtime->thread_name);
    snprintf(runtime->thread_name, sizeof runtime->thread_name, "%s", thread_name);
    pthread_mutex_init(&runtime->ticks_lock, NULL);
    rpc_arena_init(&runtime->arena);
    gpr_set_log_function(log_for_grpc);
    log_debug("gRPC may use %u CPUs", rpc_cpu_count());
    grpc_init();
    runtime->queue = grpc_completion_queue_create_for_next(NULL);
    enum status status = start_thread(runtime, error);
    if (status == STATUS_OK)
        status = await_beat(runtime, error);
    if (status == STATUS_OK)
        *runtime_out = runtime;
    else
        atomic_store(&abandoned, runtime);
    return status;
}

uint64_t rpc_runtime_progress(const struct rpc_runtime *runtime)
{
    uint64_t rounds = atomic_load_explicit(&runtime->rounds, memory_order_relaxed);
    struct timespec used = {0};
    if (rounds % 2 == 0 || clock_gettime(runtime->cpu_clock, &used) != 0)
        return rounds;
    uint64_t used_ns = (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
    return rounds ^ (used_ns / CPU_GRAIN_NS) << 32;
}

void rpc_runtime_destroy(struct rpc_runtime *runtime)
{
    if (!runtime)
        return;
    assert(!runtime->ticks && !rpc_runtime_is_current(runtime));
    grpc_completion_queue_shutdown(runtime->queue);
    pthread_join(runtime->thread, NULL);
    grpc_completion_queue_destroy(runtime->queue);
    grpc_shutdown_blocking(); /* so that all threads of the library have ended */
    rpc_arena_finish(&runtime->arena);
    pthread_mutex_destroy(&runtime->ticks_lock);
    free(runtime);
}

bool rpc_runtime_is_current(const struct rpc_runtime *runtime)
{
    return pthread_equal(pthread_self(), runtime->thread);
}

const char *rpc_runtime_name(const struct rpc_runtime *runtime)
{
    return runtime->thread_name;
}

const char *rpc_library_version(void)
{
    return grpc_version_string();
}
