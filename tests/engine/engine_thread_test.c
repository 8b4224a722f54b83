/* engine_thread: it runs on the CPUs that it is given. */
#include "base/clock.h"
#include "engine/engine_thread.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdatomic.h>

struct idle_engine {
    cpu_set_t cpus; /* of the thread, as the last step saw it */
    atomic_uint n_steps;
};

static uint64_t step(void *arg, uint64_t now_ns)
{
    struct idle_engine *engine = arg;
    cr_assert_eq(sched_getaffinity(0, sizeof engine->cpus, &engine->cpus), 0);
    atomic_fetch_add(&engine->n_steps, 1);
    return now_ns;
}

static void wait_no_time(void *engine, uint64_t until_ns)
{
    (void)engine, (void)until_ns;
}

static void do_nothing(void *engine)
{
    (void)engine;
}

static bool is_quiet(void *engine)
{
    (void)engine;
    return true;
}

static void ignore_step(void *arg, uint64_t step_ns)
{
    (void)arg, (void)step_ns;
}

static void run_on(const cpu_set_t *cpus, struct idle_engine *engine)
{
    const struct engine_thread_options options = {.name = "engine",
                                                  .engine = engine,
                                                  .step = step,
                                                  .wait = wait_no_time,
                                                  .wake = do_nothing,
                                                  .is_quiet = is_quiet,
                                                  .after_step = ignore_step,
                                                  .cpus = *cpus};
    struct engine_thread *thread;
    cr_assert_eq(engine_thread_start(&options, &thread), STATUS_OK);
    const unsigned seen = atomic_load(&engine->n_steps);
    while (atomic_load(&engine->n_steps) < seen + 2) /* a whole step after it was bound */
        sched_yield();
    cr_assert(engine_thread_stop(thread, NS_PER_S));
}

Test(engine_thread, runs_on_the_cpus_that_it_is_given)
{
    struct idle_engine engine = {.n_steps = 0};
    cpu_set_t allowed, last, none;
    CPU_ZERO(&none);
    CPU_ZERO(&last);
    cr_assert_eq(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int cpu = CPU_SETSIZE - 1; CPU_COUNT(&last) == 0; cpu--)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &last);
    run_on(&last, &engine);
    cr_expect(CPU_EQUAL(&engine.cpus, &last));
    run_on(&none, &engine);
    cr_expect(CPU_EQUAL(&engine.cpus, &allowed), "empty: any");
}
