#include "gen_worker/handover_set.h"

#include "gen_worker/trust.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status handover_set_init(struct handover_set *set, const struct gen_home *home)
{
    const struct gen_engine_options *options = home->options;
    uint32_t blocks_max = geometry_blocks(&options->geometry, options->context_tokens);
    assert(!set->handovers && options->prefills_max > 0);
    set->handovers = calloc(options->prefills_max, sizeof *set->handovers);
    if (!set->handovers)
        return STATUS_NO_MEMORY;
    set->n = options->prefills_max;
    set->next_id = 1;
    for (uint32_t i = 0; i < set->n; i++)
        TRY(handover_init(&set->handovers[i], blocks_max));
    return STATUS_OK;
}

void handover_set_finish(struct handover_set *set, const struct gen_home *home)
{
    for (uint32_t i = 0; i < set->n; i++)
        handover_finish(&set->handovers[i], home);
    free(set->handovers);
    *set = (struct handover_set){0};
}

struct handover *handover_set_free_slot(struct handover_set *set)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (set->handovers[i].state == HANDOVER_FREE)
            return &set->handovers[i];
    return NULL;
}

uint32_t handover_set_n_free(const struct handover_set *set)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < set->n; i++)
        n += set->handovers[i].state == HANDOVER_FREE;
    return n;
}

uint32_t handover_set_n_quarantined(const struct handover_set *set)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < set->n; i++)
        n += set->handovers[i].n_fenced > 0;
    return n;
}

void handover_set_own(const struct handover_set *set, struct block_owners *owners)
{
    for (uint32_t i = 0; i < set->n; i++) {
        assert(set->handovers[i].n_fenced == 0 || set->handovers[i].state == HANDOVER_CLOSING);
        block_owners_add(owners, set->handovers[i].blocks, set->handovers[i].n_fenced);
    }
}

/* NULL: it has ended, so the message is late. */
static struct handover *find(struct handover_set *set, uint64_t prefill)
{
    for (uint32_t i = 0; i < set->n; i++)
        if (set->handovers[i].state != HANDOVER_FREE && set->handovers[i].id == prefill)
            return &set->handovers[i];
    return NULL;
}

/* The sequence of a hand-over that is under way. */
static struct sequence *owner_of(const struct handover *handover)
{
    assert(handover->state != HANDOVER_FREE && handover->state != HANDOVER_CLOSING);
    assert(handover->sequence && handover->sequence->handover == handover);
    return handover->sequence;
}

static void on_described(struct handover_set *set, const struct gen_home *home,
                         const struct gen_message *message, uint64_t now_ns)
{
    struct handover *handover = find(set, message->prefill);
    struct error error = {""};
    if (!handover || handover->state == HANDOVER_CLOSING)
        return;
    enum status status = handover_described(handover, home, message->described, &error, now_ns);
    if (status != STATUS_OK)
        sequence_fall_back(owner_of(handover), home, status, error.text, now_ns);
}

static void on_prefill_event(struct handover_set *set, const struct gen_home *home,
                             const struct gen_message *message, uint64_t now_ns)
{
    struct handover *handover = find(set, message->prefill);
    if (handover && handover->state != HANDOVER_CLOSING)
        sequence_on_event(owner_of(handover), home, &message->box->event, now_ns);
}

static void on_prefill_end(struct handover_set *set, const struct gen_home *home,
                           const struct gen_message *message, uint64_t now_ns)
{
    struct handover *handover = find(set, message->prefill);
    if (!handover || !handover->awaits_end)
        return;
    handover->awaits_end = false;
    uint64_t incarnation = handover->incarnation;
    enum status status = message->end.status;
    /* While COMMITTING the answer to the commit decides. */
    if (handover->state == HANDOVER_STARTING || handover->state == HANDOVER_FETCHING)
        sequence_fall_back(owner_of(handover), home,
                           status == STATUS_OK ? STATUS_TRANSFER_FAILED : status,
                           message->end.error.text, now_ns);
    else
        handover_settle(handover);
    if (status == STATUS_STALE_PEER && incarnation != 0)
        kv_receiver_drop_peer(home->options->receiver, incarnation);
}

static void on_commit_result(struct handover_set *set, const struct gen_home *home,
                             const struct gen_message *message, uint64_t now_ns)
{
    struct handover *handover = find(set, message->prefill);
    if (!handover || !handover->awaits_commit)
        return;
    assert(handover->state == HANDOVER_COMMITTING || handover->state == HANDOVER_CLOSING);
    handover->awaits_commit = false;
    if (handover->state != HANDOVER_COMMITTING) {
        handover_settle(handover);
        return;
    }
    if (message->end.status == STATUS_OK) {
        sequence_committed(owner_of(handover), home, now_ns);
        return;
    }
    bool is_contradiction = message->end.status == STATUS_NOT_HELD && handover->awaits_end;
    uint64_t incarnation = handover->incarnation;
    sequence_fall_back(owner_of(handover), home, message->end.status, message->end.error.text,
                       now_ns);
    if (is_contradiction)
        trust_withdraw(home, incarnation, now_ns);
}

static void on_receiver_event(struct handover_set *set, const struct gen_home *home,
                              const struct kv_receiver_event *event, uint64_t now_ns)
{
    struct handover *handover = NULL;
    for (uint32_t i = 0; i < set->n && !handover; i++)
        if (set->handovers[i].is_open &&
            memcmp(&set->handovers[i].transfer, &event->id, sizeof event->id) == 0)
            handover = &set->handovers[i];
    if (!handover)
        return;
    if (event->kind == KV_QUIET) {
        handover_quiet(handover, home);
    } else if (handover->state != HANDOVER_FETCHING) {
        return; /* closed, or all blocks had arrived: the commit decides */
    } else if (event->kind == KV_FAILED) {
        uint64_t incarnation = handover->incarnation;
        sequence_fall_back(owner_of(handover), home, event->status, "the blocks could not be read",
                           now_ns);
        if (event->status == STATUS_CORRUPT)
            trust_withdraw(home, incarnation, now_ns);
    } else {
        handover_arrived(handover, event);
        sequence_try_commit(owner_of(handover), home, now_ns);
    }
}

void handover_set_on_message(struct handover_set *set, const struct gen_home *home,
                             const struct gen_message *message, uint64_t now_ns)
{
    switch (message->kind) {
    case GEN_MESSAGE_DESCRIBED:
        on_described(set, home, message, now_ns);
        break;
    case GEN_MESSAGE_PREFILL_EVENT:
        on_prefill_event(set, home, message, now_ns);
        break;
    case GEN_MESSAGE_PREFILL_END:
        on_prefill_end(set, home, message, now_ns);
        break;
    case GEN_MESSAGE_COMMIT_RESULT:
        on_commit_result(set, home, message, now_ns);
        break;
    default:
        break; /* not about hand-overs */
    }
}

void handover_set_take_events(struct handover_set *set, const struct gen_home *home,
                              uint64_t now_ns)
{
    struct kv_receiver_event event;
    while (kv_receiver_next_event(home->options->receiver, &event))
        on_receiver_event(set, home, &event, now_ns);
}
