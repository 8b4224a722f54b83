/*
 * meeting - where threads wait for each other: collectives of a warp, barriers, asynchronous copies of one thread.
 */
#include "harness/report.h"
#include "harness/threads.h"

#include <string.h>

namespace simt
{
static struct collective_slot *find_slot(struct warp *warp, uint32_t mask)
{
    struct collective_slot *empty = nullptr;
    for (struct collective_slot &slot : warp->slots) {
        if (slot.arrived && slot.mask == mask)
            return &slot;
        if (slot.arrived && slot.mask & mask)
            report("meets lanes %08x while others of its warp meet lanes %08x at %s", mask,
                   slot.mask, slot.name);
        if (!slot.arrived && !empty)
            empty = &slot;
    }
    if (!empty)
        report("more than %zu collectives of its warp are under way",
               sizeof warp->slots / sizeof *warp->slots);
    return empty;
}

/* Lanes that the CTA has. */
static uint32_t existing_lanes()
{
    const unsigned n = current->cta->n_threads - current->warp * WARP_LANES;
    return n >= WARP_LANES ? ~0u : (1u << n) - 1;
}

void collective(uint32_t mask, const char *name, void *argument, void (*all)(void **, uint32_t))
{
    counts.collectives++;
    mask &= existing_lanes();
    if (!(mask >> current->lane & 1))
        report("calls %s of lanes %08x and is none of them", name, mask);
    struct collective_slot *slot = find_slot(&current->cta->warps[current->warp], mask);
    if (!slot->arrived) {
        slot->mask = mask;
        slot->name = name;
    } else if (slot->name != name && strcmp(slot->name, name) != 0) {
        report("is at %s, lanes %08x of its warp at %s: the warp has diverged", name, slot->arrived,
               slot->name);
    }
    slot->arguments[current->lane] = argument;
    slot->arrived |= 1u << current->lane;
    if (slot->arrived != mask) {
        wait_for_others(name, mask);
        return;
    }
    if (all)
        all(slot->arguments, mask);
    slot->arrived = 0;
    progress++;
    for (unsigned lane = 0; lane < WARP_LANES; lane++)
        if (mask >> lane & 1)
            current->cta->threads[current->warp * WARP_LANES + lane].state = READY;
}

void warp_sync(uint32_t mask)
{
    char *order = &current->cta->warps[current->warp].order;
    release(order);
    collective(mask, "warp_sync", nullptr, nullptr);
    acquire(order);
}

/* Lets those go on that wait. */
static void complete(struct barrier *barrier)
{
    barrier->arrived = barrier->expected = 0;
    progress++;
    for (unsigned i = 0; i < barrier->n_waiting; i++)
        barrier->waiting[i]->state = READY;
    barrier->n_waiting = 0;
}

static struct barrier *arrive(struct cta *cta, unsigned id, unsigned n_threads, const char *name)
{
    if (id >= BARRIERS)
        report("%s: there is no barrier %u", name, id);
    if (n_threads % WARP_LANES && n_threads != cta->n_live)
        report("%s: barrier %u of %u threads, which are no whole warps", name, id, n_threads);
    struct barrier *barrier = &cta->barriers[id];
    counts.barriers++;
    release(barrier);
    if (barrier->arrived && barrier->expected != n_threads && id != 0)
        report("%s: barrier %u is of %u threads here, of %u elsewhere", name, id, n_threads,
               barrier->expected);
    barrier->expected = n_threads;
    if (++barrier->arrived > n_threads)
        report("%s: barrier %u of %u threads has more arrivals", name, id, n_threads);
    return barrier;
}

void barrier_sync(unsigned id, unsigned n_threads, const char *name)
{
    struct cta *cta = current->cta;
    struct barrier *barrier = arrive(cta, id, n_threads ? n_threads : cta->n_live, name);
    if (barrier->arrived == barrier->expected) {
        complete(barrier);
    } else {
        barrier->waiting[barrier->n_waiting++] = current;
        wait_for_others(name, BARRIER + id);
    }
    acquire(barrier);
}

void barrier_arrive(unsigned id, unsigned n_threads)
{
    struct barrier *barrier = arrive(current->cta, id, n_threads, "barrier_arrive");
    if (barrier->arrived == barrier->expected)
        complete(barrier);
}

/* Barrier 0 is of all that have not ended. */
void barrier_thread_ended(struct cta *cta)
{
    struct barrier *barrier = &cta->barriers[0];
    if (barrier->arrived && barrier->arrived == cta->n_live)
        complete(barrier);
}

bool are_copies_late()
{
    return schedule.copies_late;
}

void copy_begin(const struct copy &copy)
{
    struct thread *me = current;
    if (me->copies_end - me->copies_begin == COPIES_MAX)
        report("more than %u asynchronous copies are under way", (unsigned)COPIES_MAX);
    me->copies[me->copies_end++ % COPIES_MAX] = copy;
}

void copy_commit()
{
    struct thread *me = current;
    if (me->groups_end - me->groups_begin == COPY_GROUPS_MAX)
        report("more than %u groups of asynchronous copies are under way",
               (unsigned)COPY_GROUPS_MAX);
    me->group_end[me->groups_end++ % COPY_GROUPS_MAX] = me->copies_end;
}

bool copy_take(unsigned n_groups, struct copy *copy_out)
{
    struct thread *me = current;
    while (me->groups_end - me->groups_begin > n_groups) {
        if (me->copies_begin != me->group_end[me->groups_begin % COPY_GROUPS_MAX]) {
            *copy_out = me->copies[me->copies_begin++ % COPIES_MAX];
            return true;
        }
        me->groups_begin++;
    }
    return false;
}
} // namespace simt
