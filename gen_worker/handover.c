#include "gen_worker/handover.h"

#include "kernels/dtype.h"
#include "worker_common/worker_forward.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MIB           (1024u * 1024u)
#define BACKLOG_SLACK 2u /* other prompts arrive meanwhile, and long contexts take longer */
/* A context worker may send one backlog a second, and so many more, for example all at once after a pause. */
#define BACKLOGS_BESIDE 64u

enum status handover_init(struct handover *handover, uint32_t blocks_max)
{
    memset(handover, 0, sizeof *handover);
    handover->blocks = calloc(blocks_max, sizeof *handover->blocks);
    handover->spans = calloc(blocks_max, sizeof *handover->spans);
    return handover->blocks && handover->spans ? STATUS_OK : STATUS_NO_MEMORY;
}

static void unmark_inbound(struct handover *handover, const struct gen_home *home)
{
    if (handover->is_inbound)
        kv_manager_arrived(home->manager, handover->blocks, handover->n_local);
    handover->is_inbound = false;
}

void handover_finish(struct handover *handover, const struct gen_home *home)
{
    unmark_inbound(handover, home);
    if (handover->n_fenced > 0)
        kv_manager_unfence(home->manager, handover->blocks, handover->n_fenced);
    free(handover->blocks);
    free(handover->spans);
    memset(handover, 0, sizeof *handover);
}

static void wait_until(struct handover *handover, uint64_t limit_ns)
{
    if (limit_ns > handover->word_limit_ns)
        handover->word_limit_ns = limit_ns;
}

/* The context worker has made progress. Its next event is due after this, or later if its backlog allows that. */
static void renew_word_limit(struct handover *handover, const struct gen_home *home,
                             uint64_t now_ns)
{
    wait_until(handover, now_ns + home->options->context_limit_ns);
    handover->n_paced = handover_announced_tokens(handover);
}

uint32_t handover_announced_tokens(const struct handover *handover)
{
    return crossing_spans(&handover->crossing, handover->n_announced) * handover->block_tokens;
}

uint64_t handover_limit_ns(const struct handover *handover)
{
    return handover->word_limit_ns < handover->limit_ns ? handover->word_limit_ns
                                                        : handover->limit_ns;
}

const char *handover_limit_sentence(const struct handover *handover)
{
    if (handover->state == HANDOVER_COMMITTING)
        return "the commit was not answered in time";
    if (handover->limit_ns <= handover->word_limit_ns)
        return "announced blocks did not arrive in time";
    return handover->is_accepted ? "the context worker announced too little for too long"
                                 : "the context worker said nothing for too long";
}

void handover_start(struct handover *handover, const struct gen_home *home,
                    const struct handover_plan *plan, uint64_t now_ns)
{
    assert(handover->state == HANDOVER_FREE && handover->n_fenced == 0 && !handover->is_open);
    const struct job *job = plan->job;
    const struct geometry *geometry = &home->options->geometry;
    block_id *blocks = handover->blocks;
    uint8_t **spans = handover->spans;
    *handover = (struct handover){
        .state = HANDOVER_STARTING,
        .id = plan->id,
        .blocks = blocks,
        .spans = spans,
        .held_tokens = plan->held_tokens,
        .awaits_end = true,
        .crossing = crossing_of(geometry, job->request.n_tokens, plan->held_tokens,
                                job->request.sampling.reply_window),
        .block_tokens = geometry->block_tokens,
        .block_bytes = kv_manager_block_bytes(home->manager),
        .n_prompt = job->request.n_tokens,
        .limit_ns = DEADLINE_NONE,
        .wants_scores = plan->wants_scores,
    };
    struct sampling_params sampling = job->request.sampling;
    sampling.scores_prompt = plan->wants_scores;
    assert(plan->held_tokens % geometry->block_tokens == 0 && "whole blocks are transferred");
    assert(plan->held_tokens < job->request.n_tokens && "the logits of the last token are needed");
    renew_word_limit(handover, home, now_ns);
    handover->began_ns = now_ns;
    const struct crossing *crossing = &handover->crossing;
    handover->local = *crossing;
    handover->n_local = crossing_list(crossing, crossing->held, crossing->end, plan->table->blocks,
                                      plan->table->spans_max, plan->table->n_dropped, blocks);
    handover->n_blocks = handover->n_local;
    memcpy(handover->context_worker, job->context_worker, sizeof handover->context_worker);
    home->ops->draw_transfer_id(home->ops->arg, &handover->transfer);
    home->stats->handovers_started++;

    const struct gen_prefill_request request = {
        .input = {.request_id = job->request.request_id,
                  .token_ids = job->request.token_ids,
                  .n_tokens = engine_request_sent(&job->request, job->request.n_tokens),
                  .sampling = &sampling,
                  .adapter = job->request.adapter.adapter ? &job->request.adapter : NULL,
                  .salt = job->request.salt,
                  .salt_bytes = job->request.salt_bytes,
                  .deadline_ns = job->request.deadline_ns,
                  .standing = job->request.standing},
        .origin = &job->origin,
        .transfer_id = handover->transfer,
        .held_tokens = plan->held_tokens,
        .step_ns = home->step_ns,
    };
    home->ops->start_prefill(home->ops->arg, handover->id, job->context_worker, &request);
}

/* ---- blocks that are not like the pool's ---- */

static void convert(enum kv_dtype from_dtype, const void *from, enum kv_dtype to_dtype, void *to,
                    size_t n)
{
    const enum dtype source = worker_element_dtype(from_dtype);
    const enum dtype target = worker_element_dtype(to_dtype);
    for (size_t i = 0; i < n; i++)
        dtype_store(target, to, i, dtype_load(source, from, i));
}

/* Where the spans of a group begin in handover->spans. */
static uint32_t spans_before(const struct handover *handover, uint32_t group)
{
    const struct crossing *local = &handover->local;
    uint32_t before = 0;
    for (uint32_t i = 0; i < group; i++)
        before += local->end - local->first[i];
    return before;
}

/* (transfer) Takes a block of the context worker's to the local blocks of its tokens. Where layers have windows, both workers' blocks
 * have as many tokens (geometry_match_converting), so the local groups are theirs. */
static void put(void *arg, uint32_t index, const uint8_t *block)
{
    const struct handover *handover = arg;
    const struct crossing *crossing = &handover->crossing;
    const struct crossing_place place = crossing_at(crossing, index - crossing->base);
    const struct transfer_plan *plan = &handover->plan;
    const uint32_t first_span = handover->local.first[place.group];
    transfer_plan_put(
        plan, place.group, block, place.span * plan->from_tokens,
        &(struct transfer_target){.first = first_span * plan->to_tokens,
                                  .end = handover->n_prompt,
                                  .first_span = first_span,
                                  .spans = handover->spans + spans_before(handover, place.group)});
}

/* The addresses of the local blocks: of each group its spans. */
static void list_spans(struct handover *handover, const struct gen_home *home)
{
    const struct crossing *local = &handover->local;
    uint32_t at[CACHE_GROUPS_MAX];
    for (uint32_t group = 0; group < local->n_groups; group++)
        at[group] = spans_before(handover, group);
    for (uint32_t i = 0; i < handover->n_local; i++) {
        const uint32_t group = crossing_at(local, i).group;
        handover->spans[at[group]++] = kv_manager_data(home->manager, handover->blocks[i]);
    }
}

/* They are numbered by the context worker's blocks from now on. */
static struct kv_other_blocks take_others(struct handover *handover, const struct gen_home *home,
                                          const struct geometry *theirs)
{
    const uint32_t held = handover->held_tokens - handover->held_tokens % theirs->block_tokens;
    handover->plan = transfer_plan_of(theirs, &home->options->geometry, convert);
    handover->crossing = crossing_of(theirs, handover->n_prompt, held, 0); /* without sinks */
    handover->block_tokens = theirs->block_tokens;
    handover->block_bytes = geometry_block_bytes(theirs);
    handover->n_blocks = crossing_count(&handover->crossing, UINT32_MAX);
    list_spans(handover, home);
    return (struct kv_other_blocks){handover->block_bytes, put, handover};
}

enum status handover_described(struct handover *handover, const struct gen_home *home,
                               const struct gen_described *described, struct error *error,
                               uint64_t now_ns)
{
    const struct transport_address *address = &described->address;
    if (handover->state != HANDOVER_STARTING)
        return error_set(error, STATUS_TRANSFER_FAILED, "the context worker was described twice");
    assert(address->incarnation != 0 && "that is this worker's own KV");
    handover->incarnation = address->incarnation;
    handover->has_other_numerics = described->has_other_numerics;
    handover->is_converted = !geometry_has_equal_blocks(&home->options->geometry,
                                                        &described->geometry);
    struct kv_other_blocks others;
    if (handover->is_converted)
        others = take_others(handover, home, &described->geometry);
    enum status status = kv_receiver_open(home->options->receiver, &handover->transfer, address,
                                          handover->is_converted ? &others : NULL);
    if (status == STATUS_NO_MEMORY && handover->is_converted)
        return error_set(error, status,
                         "kv_convert has no memory for blocks of %" PRIu64
                         " bytes beside those of other transfers",
                         handover->block_bytes);
    if (status != STATUS_OK)
        return error_set(error, status, "the fetch could not be opened: %s", status_text(status));
    handover->is_open = true;
    handover->state = HANDOVER_FETCHING;
    renew_word_limit(handover, home, now_ns);
    kv_manager_inbound(home->manager, handover->blocks, handover->n_local);
    handover->is_inbound = true;
    return STATUS_OK;
}

static enum status check_fetching(const struct handover *handover, struct error *error)
{
    if (handover->state != HANDOVER_FETCHING || handover->is_sealed)
        return error_set(error, STATUS_TRANSFER_FAILED, "an event came in the wrong order");
    return STATUS_OK;
}

enum status handover_backlog(struct handover *handover, const struct gen_home *home,
                             const struct prefill_event *event, struct error *error,
                             uint64_t now_ns)
{
    TRY(check_fetching(handover, error));
    uint64_t passed_ns = now_ns - handover->began_ns, limit_ns = home->options->context_limit_ns;
    if (++handover->n_backlogs > BACKLOGS_BESIDE + passed_ns / NS_PER_S)
        return error_set(error, STATUS_TRANSFER_FAILED,
                         "the context worker reported its queue %u times in %.1f s",
                         handover->n_backlogs, (double)passed_ns / (double)NS_PER_S);
    if (handover->n_announced == handover->n_blocks)
        return STATUS_OK;
    uint64_t wait_ns = backlog_ns(&event->backlog);
    wait_ns = wait_ns < limit_ns / BACKLOG_SLACK ? wait_ns * BACKLOG_SLACK : limit_ns;
    wait_until(handover, clock_earlier(now_ns + wait_ns,
                                       handover->began_ns + home->options->context_limit_max_ns));
    return STATUS_OK;
}

enum status handover_accepted(struct handover *handover, const struct gen_home *home,
                              const struct prefill_event *event, struct error *error,
                              uint64_t now_ns)
{
    TRY(check_fetching(handover, error));
    if (handover->is_accepted)
        return error_set(error, STATUS_TRANSFER_FAILED, "the prompt was accepted twice");
    const uint32_t block_tokens = handover->block_tokens;
    if (event->accepted.block_tokens != block_tokens ||
        event->accepted.n_blocks != handover->n_blocks)
        return error_set(error, STATUS_TRANSFER_FAILED,
                         "%u blocks of %u tokens were promised, wanted %u of %u",
                         event->accepted.n_blocks, event->accepted.block_tokens, handover->n_blocks,
                         block_tokens);
    handover->is_accepted = true;
    renew_word_limit(handover, home, now_ns);
    return STATUS_OK;
}

/* n more blocks were announced. The timeout of blocks under way grows with them. context_limit_tokens of them, or all that were
 * left, count as progress. */
static void announce(struct handover *handover, const struct gen_home *home, uint32_t n,
                     uint64_t now_ns)
{
    const struct gen_engine_options *options = home->options;
    if (handover->n_arrived == handover->n_announced)
        handover->limit_ns = now_ns + options->transfer_limit_ns;
    uint64_t mib = (n * handover->block_bytes + MIB - 1) / MIB;
    handover->limit_ns += mib * options->transfer_limit_mib_ns;

    handover->n_announced += n;
    const uint32_t n_tokens = handover_announced_tokens(handover) - handover->n_paced;
    if (n_tokens >= options->context_limit_tokens || handover->n_announced == handover->n_blocks)
        renew_word_limit(handover, home, now_ns);
}

enum status handover_ready(struct handover *handover, const struct gen_home *home,
                           const struct prefill_event *event, struct error *error, uint64_t now_ns)
{
    TRY(check_fetching(handover, error));
    uint32_t next = handover->crossing.base + handover->n_announced;
    uint32_t n_left = handover->n_blocks - handover->n_announced;
    uint32_t n = event->ready.n_blocks;
    if (event->ready.first_block != next || n == 0 || n > n_left)
        return error_set(error, STATUS_TRANSFER_FAILED,
                         "blocks %u + %u were announced, %u + at most %u are next",
                         event->ready.first_block, n, next, n_left);

    assert(handover->is_open && handover->is_inbound && "since it was described");
    if (handover->n_announced == 0)
        handover->first_ready_ns = now_ns;
    kv_receiver_fetch(
        home->options->receiver, &handover->transfer,
        &(struct kv_fetch){.first_index = next,
                           .n = n,
                           .remote_blocks = event->ready.block_ids,
                           .local_blocks = handover->is_converted
                                               ? NULL
                                               : handover->blocks + handover->n_announced,
                           .digests = event->ready.digests});
    announce(handover, home, n, now_ns);
    return STATUS_OK;
}

enum status handover_sealed(struct handover *handover, const struct prefill_event *event,
                            struct error *error)
{
    TRY(check_fetching(handover, error));
    if (event->sealed.n_tokens != handover->n_prompt || handover->n_announced != handover->n_blocks)
        return error_set(
            error, STATUS_TRANSFER_FAILED, "complete at %u tokens and %u blocks, wanted %u and %u",
            event->sealed.n_tokens, handover->n_announced, handover->n_prompt, handover->n_blocks);
    if (event->sealed.cached_tokens >= handover->n_prompt)
        return error_set(error, STATUS_TRANSFER_FAILED, "complete with %u cached tokens of %u",
                         event->sealed.cached_tokens, handover->n_prompt);
    handover->is_sealed = true;
    handover->word_limit_ns = DEADLINE_NONE;
    handover->context_cached_tokens = event->sealed.cached_tokens;
    handover->context_queue_us = event->sealed.queue_us;
    handover->context_compute_us = event->sealed.compute_us;
    return STATUS_OK;
}

void handover_arrived(struct handover *handover, const struct kv_receiver_event *event)
{
    assert(event->n_blocks <= handover->n_announced && event->n_blocks >= handover->n_arrived);
    assert(event->bytes >= handover->bytes);
    handover->n_arrived = event->n_blocks;
    handover->bytes = event->bytes;
    if (handover->n_arrived == handover->n_announced)
        handover->limit_ns = DEADLINE_NONE;
}

bool handover_is_complete(const struct handover *handover)
{
    return handover->state == HANDOVER_FETCHING && handover->is_sealed &&
           handover->n_arrived == handover->n_blocks;
}

void handover_commit(struct handover *handover, const struct gen_home *home, uint64_t now_ns)
{
    assert(handover_is_complete(handover) && !handover->awaits_commit);
    assert(handover->has_first_token && "else the seal was refused");
    handover->state = HANDOVER_COMMITTING;
    handover->awaits_commit = true;
    handover->commit_began_ns = now_ns;
    handover->limit_ns = now_ns + home->options->commit_limit_ns;
    uint64_t kv_bytes = handover->n_arrived * handover->block_bytes;
    home->ops->commit(home->ops->arg, handover->id, handover->context_worker, &handover->transfer,
                      kv_bytes, handover->incarnation);
}

void handover_close(struct handover *handover, const struct gen_home *home, enum handover_fate fate)
{
    assert(handover->state != HANDOVER_FREE && handover->state != HANDOVER_CLOSING);
    assert(fate == HANDOVER_DISCARD ||
           (handover->state == HANDOVER_COMMITTING && !handover->awaits_commit));
    handover->state = HANDOVER_CLOSING;
    handover->sequence = NULL;
    unmark_inbound(handover, home);
    if (handover->is_open) {
        if (fate == HANDOVER_DISCARD) {
            handover->n_fenced = handover->n_local;
            kv_manager_fence(home->manager, handover->blocks, handover->n_fenced);
        }
        kv_receiver_close(home->options->receiver, &handover->transfer);
    }
    if (handover->awaits_end)
        home->ops->cancel_prefill(home->ops->arg, handover->id);
    handover_settle(handover);
}

void handover_quiet(struct handover *handover, const struct gen_home *home)
{
    assert(handover->state == HANDOVER_CLOSING && handover->is_open);
    assert(!handover->is_inbound && !handover->sequence && "both ended with its close");
    handover->is_open = false;
    if (handover->n_fenced > 0)
        kv_manager_unfence(home->manager, handover->blocks, handover->n_fenced);
    handover->n_fenced = 0;
    handover_settle(handover);
}

void handover_settle(struct handover *handover)
{
    assert(handover->n_fenced == 0 || handover->is_open);
    if (handover->state == HANDOVER_CLOSING && !handover->is_open && !handover->awaits_end &&
        !handover->awaits_commit)
        handover->state = HANDOVER_FREE;
}
