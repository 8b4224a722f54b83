#include "gen_worker/admission.h"

#include "engine/prefix_tier.h"
#include "engine/request_queue.h"
#include "gen_worker/handover_set.h"

#include <assert.h>

/* Waiting jobs that are looked up in the prefix cache in one step. Jobs behind them count as not cached until the next step. */
#define LOOKUPS_MAX 4u

enum status admission_take(const struct gen_home *home, struct job *job, uint64_t now_ns)
{
    const struct standing *standing = &job->request.standing;
    const struct schedule_request request = {
        .tenant = standing->tenant,
        .weight = standing->weight,
        .priority = standing->priority,
        .prompt_tokens = job->request.n_tokens,
        .max_new_tokens = job->request.sampling.max_tokens,
        .n_beams = job->search ? job->request.sampling.beams.n_beams : 1,
        .needs_handover = job->context_worker[0] != '\0' && !home->options->local_prefill,
        .is_whole = job->request.n_text > 0,
    };
    schedule_id id;
    TRY(schedule_add(home->schedule, &request, now_ns / NS_PER_MS, NULL, &id));
    assert(id < home->options->sequences_max + home->options->queue_max && "as jobs has rows");
    assert(!home->jobs[id] && !job->sequence);
    job->request.schedule_id = id;
    home->jobs[id] = job;
    return STATUS_OK;
}

void admission_forget(const struct gen_home *home, const struct job *job)
{
    schedule_id id = job->request.schedule_id;
    assert(home->jobs[id] == job && !job->sequence);
    prefix_tier_leave(home->tier, &home->jobs[id]->request);
    schedule_remove(home->schedule, id);
    home->jobs[id] = NULL;
}

/* ---- prefixes of those that wait ---- */

/* Spans of a prompt that the cache may give, as in sequence_lookup_blocks. */
static uint32_t n_cacheable(const struct gen_home *home, const struct engine_request *request)
{
    const struct geometry *geometry = &home->options->geometry;
    const struct sink_window sinks = sink_window_of(&geometry->sinks,
                                                    request->sampling.reply_window);
    const bool is_whole = request->sampling.scores_prompt; /* it is computed whole */
    if (is_whole || sink_window_dropped(&sinks, geometry->block_tokens, request->n_tokens) > 0)
        return 0;
    return (request->n_tokens - 1) / geometry->block_tokens;
}

/* Shared blocks cost nothing. Returns the blocks that the job takes for its known tokens. Most steps do not change the cache;
 * then the last answer still holds. */
static uint32_t look_up(const struct gen_home *home, struct job *job)
{
    const struct sequence *sequence = job->sequence;
    uint64_t changes = kv_manager_changes(home->manager);
    assert(!sequence || sequence->state == SEQUENCE_PAUSED);
    if (job->lookup_at == changes)
        return job->lookup_blocks;
    uint32_t block_tokens = home->options->geometry.block_tokens;
    uint32_t n_tokens = sequence ? sequence->n_tokens : job->request.n_tokens;
    uint32_t n_lookup = sequence ? sequence_lookup_blocks(sequence)
                                 : n_cacheable(home, &job->request);
    uint32_t n_held;
    uint32_t n_known = kv_manager_peek(home->manager, sequence ? sequence->hashes : job->hashes,
                                       n_lookup, &n_held);
    assert(n_known <= n_lookup);
    n_known = engine_request_usable(&job->request, n_known, block_tokens);
    n_held = n_known > 0 ? n_held : 0;
    schedule_set_prefix(home->schedule, job->request.schedule_id, n_known * block_tokens, n_held);
    home->stats->prefix_lookups++;
    job->lookup_at = changes;
    job->lookup_blocks = kv_manager_needs(home->manager, n_tokens) - n_held;
    return job->lookup_blocks;
}

/* Paused ones first. Ends where slots or blocks end. */
static void look_up_prefixes(const struct gen_home *home)
{
    uint32_t n_places = 0, n_left = kv_manager_left(home->manager);
    for (uint32_t i = 0; i < home->options->sequences_max; i++) {
        const struct sequence *sequence = &home->sequences[i];
        n_places += sequence->state == SEQUENCE_FREE;
        if (sequence->state == SEQUENCE_PAUSED)
            look_up(home, sequence->job);
    }
    uint32_t n_waiting = request_queue_count(home->queue);
    for (uint32_t i = 0; i < n_waiting && i < n_places && i < LOOKUPS_MAX; i++) {
        uint32_t n_taken = look_up(home, job_of(request_queue_at(home->queue, i)));
        if (n_taken > n_left)
            return;
        n_left -= n_taken;
    }
}

/* ---- prefixes in a tier ---- */

/* Those that come next wait for what a tier has of their prefix. */
static void hold(const struct gen_home *home, uint64_t now_ns)
{
    prefix_tier_run(home->tier, now_ns);
    const uint32_t n_waiting = home->tier ? request_queue_count(home->queue) : 0;
    for (uint32_t i = 0; i < n_waiting && i < LOOKUPS_MAX; i++) {
        struct engine_request *request = request_queue_at(home->queue, i);
        const uint32_t n = n_cacheable(home, request);
        schedule_hold(home->schedule, request->schedule_id,
                      prefix_tier_holds(home->tier, request, job_of(request)->hashes, n, now_ns));
    }
}

/* ---- admissions ---- */

static struct sequence *free_sequence(const struct gen_home *home)
{
    for (uint32_t i = 0; i < home->options->sequences_max; i++)
        if (home->sequences[i].state == SEQUENCE_FREE)
            return &home->sequences[i];
    return NULL;
}

static void start(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    struct handover *handover = handover_set_free_slot(home->handovers);
    assert(handover || !sequence->crosses);
    if (sequence->crosses)
        sequence_start_handover(sequence, home, handover, home->handovers->next_id++, now_ns);
    else
        sequence_start_local(sequence, home, now_ns);
}

/* False: the pool lacked the blocks that the plan counted on. The job waits as before. */
static bool admit(const struct gen_home *home, const struct schedule_admission *admission,
                  uint64_t now_ns)
{
    struct job *job = home->jobs[admission->id];
    bool is_first = !job->sequence;
    struct sequence *sequence = is_first ? free_sequence(home) : job->sequence;
    assert(sequence && (is_first || admission->is_resumed));
    assert(is_first || sequence->state == SEQUENCE_PAUSED);
    if (is_first)
        sequence_take_job(sequence, home, job);
    const bool may_cross = handover_set_free_slot(home->handovers) != NULL;
    if (sequence_take_blocks(sequence, home, admission, may_cross, now_ns) != STATUS_OK) {
        schedule_pause(home->schedule, admission->id);
        job->lookup_at = 0; /* the schedule has forgotten its prefix */
        if (is_first)
            sequence_leave_job(sequence, home);
        return false;
    }
    if (is_first)
        request_queue_remove(home->queue, &job->request);
    start(sequence, home, now_ns);
    assert(sequence->handover ? sequence->state == SEQUENCE_RESERVED
                              : sequence_is_runnable(sequence));
    return true;
}

struct engine_admission admission_run(const struct gen_home *home, uint64_t now_ns)
{
    hold(home, now_ns);
    if (kv_manager_caches(home->manager))
        look_up_prefixes(home);
    const struct schedule_room room = {.n_blocks_available = kv_manager_left(home->manager),
                                       .n_handovers_free = handover_set_n_free(home->handovers)};
    struct schedule_changes changes;
    schedule_capacity(home->schedule, &room, &changes);
    assert(changes.n_paused == 0 || changes.n_admitted == 0);
    for (uint32_t i = 0; i < changes.n_paused; i++)
        sequence_pause(home->jobs[changes.paused[i]]->sequence, home);
    for (uint32_t i = 0; i < changes.n_admitted; i++)
        if (!admit(home, &changes.admitted[i], now_ns))
            changes.waits_for = STATUS_NO_BLOCKS;
    /* It need not be of those that came first. */
    if (kv_manager_caches(home->manager) && changes.next != SCHEDULE_NONE)
        look_up(home, home->jobs[changes.next]);
    home->stats->pauses += changes.n_paused;
    return (struct engine_admission){.has_changed = changes.n_paused + changes.n_admitted > 0,
                                     .waits_for = changes.waits_for};
}
