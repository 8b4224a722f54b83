/* notice: in every interleaving of a producer and a consumer whose stores may be late, the consumer has
 * seen the last change once all words are taken; with a store in place of its exchange it has not.
 *
 * The steps are those of notice.h itself: its atomic calls are recorded, not repeated here. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum step_kind { STORE, EXCHANGE, LOAD_COUNTER, PUSH_UNLESS_UP, POP };

struct step {
    enum step_kind kind;
    int variable; /* of STORE */
    int value;    /* of STORE and EXCHANGE */
};

enum { COUNTER, FLAG, N_VARIABLES };
enum { STEPS_MAX = 16, CHANGES = 3 };

struct program {
    struct step steps[STEPS_MAX];
    int n;
};

static struct program *recorder;

static void record(enum step_kind kind, int variable, int value)
{
    recorder->steps[recorder->n++] = (struct step){kind, variable, value};
}

static bool recorded_exchange(atomic_bool *flag, bool value)
{
    (void)flag;
    record(EXCHANGE, FLAG, value);
    return false;
}

static void recorded_store(atomic_bool *flag, bool value)
{
    (void)flag;
    record(STORE, FLAG, value);
}

#undef atomic_exchange
#undef atomic_store
#define atomic_exchange(flag, value) recorded_exchange(flag, value)
#define atomic_store(flag, value)    recorded_store(flag, value)
#include "kvtransfer/notice.h"

#include <criterion/criterion.h>

static void lower_by_store(struct notice *notice)
{
    atomic_store(&notice->is_up, false);
}

/* ---- the machine: two threads, each with a buffer of stores that memory has not seen ---- */

struct thread {
    int next; /* step */
    int seen; /* by its last EXCHANGE or LOAD_COUNTER */
    struct step buffer[STEPS_MAX];
    int n_buffered;
};

struct machine {
    int memory[N_VARIABLES];
    int n_queued; /* words */
    struct thread producer, consumer;
};

struct search {
    struct program producer, consumer;
    uint32_t n_ends, n_lost;
};

/* An exchange, and the lock of the queue of words, wait for the thread's own stores. False: not yet. */
static bool run_step(struct machine *machine, struct thread *thread, const struct step *step)
{
    bool is_ordered = step->kind != STORE && step->kind != LOAD_COUNTER;
    if (is_ordered && thread->n_buffered > 0)
        return false;
    switch (step->kind) {
    case STORE:
        thread->buffer[thread->n_buffered++] = *step;
        break;
    case EXCHANGE:
        thread->seen = machine->memory[FLAG];
        machine->memory[FLAG] = step->value;
        break;
    case LOAD_COUNTER: /* the consumer never stores it: its own buffer has no say */
        thread->seen = machine->memory[COUNTER];
        break;
    case PUSH_UNLESS_UP:
        machine->n_queued += thread->seen == 0;
        break;
    case POP:
        if (machine->n_queued == 0)
            return false;
        machine->n_queued--;
        break;
    }
    thread->next++;
    return true;
}

static bool flush_one(struct machine *machine, struct thread *thread)
{
    if (thread->n_buffered == 0)
        return false;
    machine->memory[thread->buffer[0].variable] = thread->buffer[0].value;
    thread->n_buffered--;
    for (int i = 0; i < thread->n_buffered; i++)
        thread->buffer[i] = thread->buffer[i + 1];
    return true;
}

/* Every way on from here. */
static void explore(struct search *search, struct machine machine)
{
    bool is_over = true;
    struct machine next = machine;
    if (machine.producer.next < search->producer.n &&
        run_step(&next, &next.producer, &search->producer.steps[machine.producer.next])) {
        is_over = false;
        explore(search, next);
    }
    next = machine;
    if (run_step(&next, &next.consumer,
                 &search->consumer.steps[machine.consumer.next % search->consumer.n])) {
        is_over = false;
        explore(search, next);
    }
    next = machine;
    if (flush_one(&next, &next.producer)) {
        is_over = false;
        explore(search, next);
    }
    next = machine;
    if (flush_one(&next, &next.consumer)) {
        is_over = false;
        explore(search, next);
    }
    if (is_over) {
        cr_assert_eq(machine.producer.next, search->producer.n);
        cr_assert_eq(machine.memory[COUNTER], CHANGES);
        search->n_ends++;
        search->n_lost += machine.consumer.seen != CHANGES;
    }
}

static struct search explore_with(void (*lower)(struct notice *notice))
{
    struct search search = {0};
    struct notice notice = {0};
    recorder = &search.producer;
    for (int i = 1; i <= CHANGES; i++) {
        record(STORE, COUNTER, i);
        (void)notice_raise(&notice);
        record(PUSH_UNLESS_UP, 0, 0);
    }
    recorder = &search.consumer;
    record(POP, 0, 0);
    lower(&notice);
    record(LOAD_COUNTER, 0, 0);
    cr_assert_eq(search.producer.n, 3 * CHANGES, "a raise is one atomic step");
    cr_assert_eq(search.consumer.n, 3, "so is a lower");
    explore(&search, (struct machine){0});
    cr_assert_gt(search.n_ends, 1000);
    return search;
}

Test(notice, loses_no_change_in_any_interleaving)
{
    cr_assert_eq(explore_with(notice_lower).n_lost, 0);
}

Test(notice, would_lose_one_if_it_were_lowered_by_a_store)
{
    cr_assert_gt(explore_with(lower_by_store).n_lost, 0);
}
