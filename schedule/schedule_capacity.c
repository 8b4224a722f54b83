/* Decides which sequences have blocks in the next step: first the admitted ones, then new
 * admissions. */
#include "schedule/schedule_state.h"

#include <assert.h>

/* ---- admitted sequences ---- */

/* The youngest sequence, younger than the one at that place, that can give blocks back at once.
 * Blocks of a running KV transfer cannot be reused before it has ended. n_admitted: none. */
static uint32_t find_victim(const struct schedule *schedule, uint32_t place)
{
    for (uint32_t i = schedule->n_admitted; i-- > place + 1;) {
        enum schedule_state state = schedule->entries[schedule->admitted[i]].state;
        if (state == SCHEDULE_COMPUTING || state == SCHEDULE_DECODING)
            return i;
    }
    return schedule->n_admitted;
}

/* Pauses younger sequences until n blocks are left, or none is left to pause. */
static uint32_t make_room(struct schedule *schedule, uint32_t place, uint32_t n, uint32_t n_left,
                          uint32_t *n_paused)
{
    while (n_left < n && schedule->options.policy == SCHEDULE_MAX_UTILIZATION) {
        uint32_t victim = find_victim(schedule, place);
        if (victim == schedule->n_admitted)
            break;
        schedule_id id = schedule->admitted[victim];
        const struct schedule_entry *entry = &schedule->entries[id];
        assert(entry->n_shared <= entry->n_blocks);
        n_left += entry->n_blocks - entry->n_shared;
        schedule->paused[(*n_paused)++] = id;
        schedule_stop(schedule, id);
    }
    return n_left;
}

/* Reserves the blocks for the next token of each decode, by rank. A sequence without a block stalls: it
 * keeps its blocks, and is paused next if an older one needs them. Returns how many stall. */
static uint32_t grow(struct schedule *schedule, uint32_t *n_left, uint32_t *n_paused)
{
    uint32_t n_stalled = 0;
    for (uint32_t i = 0; i < schedule->n_admitted; i++) {
        struct schedule_entry *entry = &schedule->entries[schedule->admitted[i]];
        entry->is_stalled = false;
        entry->n_granted = entry->n_blocks;
        if (entry->state == SCHEDULE_FETCHING || entry->state == SCHEDULE_DONE)
            continue;
        uint32_t n_wanted = schedule_blocks(schedule, entry, entry->n_tokens);
        assert(n_wanted >= entry->n_blocks);
        uint32_t n_more = n_wanted - entry->n_blocks;
        *n_left = make_room(schedule, i, n_more, *n_left, n_paused);
        entry->is_stalled = n_more > *n_left;
        n_stalled += entry->is_stalled;
        if (entry->is_stalled)
            continue;
        *n_left -= n_more;
        entry->n_granted = n_wanted;
    }
    return n_stalled;
}

/* ---- admissions ---- */

/* The blocks that the admitted ones will still need if each becomes as long as it may. */
static uint64_t n_still_needed(const struct schedule *schedule)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < schedule->n_admitted; i++) {
        const struct schedule_entry *entry = &schedule->entries[schedule->admitted[i]];
        n += schedule_blocks_at_end(schedule, entry) - entry->n_granted;
    }
    return n;
}

static bool fits(const struct schedule *schedule, const struct schedule_entry *entry,
                 uint32_t n_left, uint64_t n_needed)
{
    if (schedule->options.policy == SCHEDULE_MAX_UTILIZATION) {
        const bool may_grow = schedule->options.blocks_fixed == 0 && schedule->n_admitted > 0;
        uint32_t n_kept = may_grow ? schedule->options.headroom_blocks : 0;
        uint32_t n_now = schedule_blocks(schedule, entry, entry->n_tokens) - entry->n_shared;
        return (uint64_t)n_now + n_kept <= n_left;
    }
    return n_needed + schedule_blocks_at_end(schedule, entry) - entry->n_shared <= n_left;
}

/* A sharer without sequences may always have one; others have up to their share. Blocks that its sequences
 * have in common count for each of them; but if all blocks outside its share stay unneeded, it is within
 * its share. */
static bool is_within_share(const struct schedule *schedule, const struct schedule_entry *entry,
                            uint64_t n_unneeded)
{
    const struct schedule_options *options = &schedule->options;
    const struct share *share = &schedule->shares.all[entry->share];
    uint64_t n_blocks = schedule_blocks_at_end(schedule, entry);
    uint64_t n_share = schedule_share(options, options->n_blocks);
    if (share->n_sequences == 0 || options->tenant_share_percent == 100)
        return true;
    return share->n_sequences < schedule_share(options, options->sequences_max) &&
           (share->n_blocks + n_blocks <= n_share ||
            n_unneeded >= options->n_blocks - n_share + n_blocks);
}

static bool has_places(const struct schedule *schedule, const struct schedule_entry *entry)
{
    return entry->was_paused ||
           schedule->n_places + entry->n_beams <= schedule->options.sequences_max;
}

/* The next request of the tenant: its head, unless its sharer has used up its share; then the first one after it from another
 * sharer. When a request lacks places, those behind it wait, but for paused ones, which keep theirs: waits_inout. FAIR_NONE:
 * none. */
static schedule_id next_of(struct schedule *schedule, const struct fair_tenant *tenant,
                           uint64_t n_unneeded, bool *waits_inout)
{
    schedule_id id = tenant->head;
    schedule->n_looks++;
    for (; id != FAIR_NONE; id = schedule->queue.items[id].next) {
        const struct schedule_entry *entry = &schedule->entries[id];
        struct share *share = &schedule->shares.all[entry->share];
        if (entry->is_held || share->skipped == schedule->n_looks ||
            (*waits_inout && !entry->was_paused))
            continue;
        if (is_within_share(schedule, entry, n_unneeded)) {
            if (has_places(schedule, entry))
                break;
            *waits_inout = true;
            continue;
        }
        share->skipped = schedule->n_looks;
    }
    return id;
}

static void add_turns(struct schedule *schedule)
{
    const struct fair_queue *queue = &schedule->queue;
    fair_turns_clear(&schedule->turns);
    for (uint32_t i = 0; i < queue->n_tenants; i++) {
        const struct fair_tenant *tenant = &queue->tenants[i];
        if (tenant->n_waiting > 0)
            fair_turns_add(&schedule->turns,
                           &(struct fair_turn){.key = fair_queue_key(tenant),
                                               .seq = queue->items[tenant->head].seq,
                                               .tenant = i});
    }
}

static void pass_turn(struct schedule *schedule, const struct fair_tenant *tenant)
{
    if (tenant->n_waiting == 0)
        fair_turns_drop_first(&schedule->turns);
    else
        fair_turns_move_first(&schedule->turns, fair_queue_key(tenant),
                              schedule->queue.items[tenant->head].seq);
}

static void admit(struct schedule *schedule, const struct schedule_room *room, uint32_t n_left,
                  struct schedule_changes *changes)
{
    uint32_t n_handovers = room->n_handovers_free;
    uint64_t n_needed = n_still_needed(schedule);
    const struct fair_turn *turn;
    bool waits = false;
    add_turns(schedule);
    while ((turn = fair_turns_first(&schedule->turns)) &&
           schedule->n_admitted < schedule->options.sequences_max) {
        const struct fair_tenant *tenant = &schedule->queue.tenants[turn->tenant];
        uint64_t n_unneeded = n_left > n_needed ? n_left - n_needed : 0;
        schedule_id id = next_of(schedule, tenant, n_unneeded, &waits);
        if (id == FAIR_NONE) {
            fair_turns_drop_first(&schedule->turns);
            continue;
        }
        struct schedule_entry *entry = &schedule->entries[id];
        if (entry->needs_handover && n_handovers == 0)
            break;
        if (!fits(schedule, entry, n_left, n_needed)) {
            changes->waits_for = STATUS_NO_BLOCKS;
            changes->next = id;
            break;
        }
        n_handovers -= entry->needs_handover;
        schedule_start(schedule, id);
        n_left -= entry->n_blocks - entry->n_shared;
        n_needed += schedule_blocks_at_end(schedule, entry) - entry->n_blocks;
        schedule->admissions[changes->n_admitted++] = (struct schedule_admission){
            .id = id,
            .n_tokens = entry->n_tokens,
            .n_blocks = entry->n_blocks,
            .n_shared = entry->n_shared,
            .is_resumed = entry->was_paused};
        pass_turn(schedule, tenant);
    }
}

void schedule_capacity(struct schedule *schedule, const struct schedule_room *room,
                       struct schedule_changes *changes_out)
{
    uint32_t n_left = room->n_blocks_available, n_paused = 0;
    bool is_batch_full = schedule->options.policy == SCHEDULE_STATIC_BATCH &&
                         schedule->n_admitted > 0;
    uint32_t n_stalled = grow(schedule, &n_left, &n_paused);
    bool is_short = n_stalled > 0 || n_paused > 0;
    struct schedule_changes changes = {.n_paused = n_paused,
                                       .paused = schedule->paused,
                                       .admitted = schedule->admissions,
                                       .waits_for = is_short ? STATUS_NO_BLOCKS : STATUS_QUEUE_FULL,
                                       .next = SCHEDULE_NONE};
    if (!is_short && !is_batch_full)
        admit(schedule, room, n_left, &changes);
    if (schedule->queue.n_waiting == 0)
        changes.waits_for = STATUS_OK;
    *changes_out = changes;
}
