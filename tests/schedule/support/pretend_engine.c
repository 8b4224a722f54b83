#include "tests/schedule/support/pretend_engine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void *array(size_t n, size_t bytes)
{
    void *memory = calloc(n, bytes);
    assert(memory);
    return memory;
}

void pretend_init(struct pretend_engine *engine, const struct schedule_options *options)
{
    struct error error = {""};
    memset(engine, 0, sizeof *engine);
    engine->options = *options;
    enum status status = schedule_create(options, &error, &engine->schedule);
    assert(status == STATUS_OK);
    engine->requests_max = options->sequences_max + options->waiting_max;
    engine->requests = array(engine->requests_max, sizeof *engine->requests);
    engine->outcome.drew = array(2 * options->sequences_max, sizeof(schedule_id));
    engine->outcome.ended = array(2 * options->sequences_max, sizeof(schedule_id));
    engine->outcome.admitted = array(options->sequences_max, sizeof(schedule_id));
    engine->n_free = options->n_blocks;
    for (uint32_t i = 0; i < PRETEND_GROUPS; i++)
        engine->groups[i].n_blocks = i + 1;
}

void pretend_finish(struct pretend_engine *engine)
{
    schedule_destroy(engine->schedule);
    free(engine->requests);
    free(engine->outcome.drew);
    free(engine->outcome.ended);
    free(engine->outcome.admitted);
}

/* ---- blocks ---- */

static uint32_t blocks_of(const struct pretend_engine *engine, uint32_t n_tokens)
{
    const struct schedule_options *options = &engine->options;
    const uint32_t n_spans = (n_tokens + options->block_tokens - 1) / options->block_tokens;
    uint32_t n = options->n_groups == 0 ? n_spans : 0;
    for (uint32_t i = 0; i < options->n_groups; i++)
        n += n_spans < options->span_limits[i] ? n_spans : options->span_limits[i];
    return n;
}

static uint32_t n_cached_blocks(const struct pretend_engine *engine)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < PRETEND_GROUPS; i++)
        if (engine->groups[i].is_computed && engine->groups[i].n_holders == 0)
            n += engine->groups[i].n_blocks;
    return n;
}

/* False: there are not so many, even without the cache. */
static bool take(struct pretend_engine *engine, uint32_t n)
{
    for (uint32_t i = 0; i < PRETEND_GROUPS && engine->n_free < n; i++) {
        struct pretend_group *group = &engine->groups[i];
        if (!group->is_computed || group->n_holders > 0)
            continue;
        group->is_computed = false;
        engine->n_free += group->n_blocks;
    }
    if (engine->n_free < n)
        return false;
    engine->n_free -= n;
    return true;
}

static void check_blocks(const struct pretend_engine *engine)
{
    uint32_t n = engine->n_free + engine->n_stolen + n_cached_blocks(engine);
    uint32_t n_holders[PRETEND_GROUPS] = {0};
    for (uint32_t i = 0; i < engine->requests_max; i++) {
        const struct pretend_request *request = &engine->requests[i];
        if (!request->is_known)
            continue;
        assert(request->is_admitted || (request->n_blocks == 0 && !request->holds_group));
        n += request->n_blocks;
        if (request->holds_group)
            n_holders[request->arrival.group]++;
    }
    for (uint32_t i = 0; i < PRETEND_GROUPS; i++) {
        assert(n_holders[i] == engine->groups[i].n_holders);
        n += n_holders[i] > 0 ? engine->groups[i].n_blocks : 0;
    }
    assert(n == engine->options.n_blocks);
}

/* ---- what comes and goes ---- */

static void decide(struct pretend_engine *engine, uint64_t decision)
{
    engine->hash = (engine->hash ^ decision) * 0x100000001b3u;
}

static struct pretend_group *group_of(struct pretend_engine *engine,
                                      const struct pretend_request *request)
{
    return request->arrival.group == PRETEND_NO_GROUP ? NULL
                                                      : &engine->groups[request->arrival.group];
}

enum status pretend_add(struct pretend_engine *engine, const struct pretend_arrival *arrival,
                        uint64_t now_ms, schedule_id *id_out)
{
    struct schedule_request request = {.tenant = arrival->tenant,
                                       .sharer = arrival->tenant,
                                       .weight = arrival->weight,
                                       .priority = arrival->priority,
                                       .prompt_tokens = arrival->prompt_tokens,
                                       .max_new_tokens = arrival->max_new_tokens,
                                       .needs_handover = arrival->fetch_steps > 0};
    struct error error = {""};
    schedule_id id;
    assert(arrival->tenant < PRETEND_TENANTS && arrival->generates <= arrival->max_new_tokens);
    TRY(schedule_add(engine->schedule, &request, now_ms, &error, &id));
    assert(id < engine->requests_max && !engine->requests[id].is_known);
    int64_t aging_ms = engine->options.aging_ms;
    engine->requests[id] = (struct pretend_request){
        .is_known = true,
        .arrival = *arrival,
        .seq = engine->next_seq++,
        .rank = (int64_t)now_ms - arrival->priority * aging_ms,
        .n_tokens = arrival->prompt_tokens,
    };
    *id_out = id;
    return STATUS_OK;
}

static void give_blocks_back(struct pretend_engine *engine, struct pretend_request *request)
{
    engine->n_free += request->n_blocks;
    if (request->holds_group) {
        struct pretend_group *group = group_of(engine, request);
        group->n_holders--;
        if (group->n_holders == 0 && !group->is_computed)
            engine->n_free += group->n_blocks;
    }
    request->n_blocks = request->n_kv = request->fetch_left = request->lease_left = 0;
    request->holds_group = request->is_admitted = false;
}

void pretend_cancel(struct pretend_engine *engine, schedule_id id)
{
    struct pretend_request *request = &engine->requests[id];
    assert(request->is_known);
    give_blocks_back(engine, request);
    schedule_remove(engine->schedule, id);
    request->is_known = false;
}

void pretend_give_up(struct pretend_engine *engine, schedule_id id)
{
    assert(engine->requests[id].is_admitted);
    give_blocks_back(engine, &engine->requests[id]);
    schedule_pause(engine->schedule, id);
    engine->n_given_up++;
}

uint32_t pretend_steal(struct pretend_engine *engine, uint32_t n)
{
    n = n < engine->n_free ? n : engine->n_free;
    engine->n_free -= n;
    engine->n_stolen += n;
    return n;
}

void pretend_give_back(struct pretend_engine *engine, uint32_t n)
{
    assert(n <= engine->n_stolen);
    engine->n_free += n;
    engine->n_stolen -= n;
}

/* ---- the first question: blocks ---- */

static bool is_older(const struct pretend_request *a, const struct pretend_request *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->seq < b->seq);
}

static void pause_one(struct pretend_engine *engine, schedule_id id)
{
    struct pretend_request *request = &engine->requests[id];
    bool has_older = false;
    assert(engine->options.policy == SCHEDULE_MAX_UTILIZATION);
    assert(request->is_admitted && request->fetch_left == 0 && request->lease_left == 0);
    for (uint32_t i = 0; i < engine->requests_max && !has_older; i++)
        has_older = engine->requests[i].is_known && engine->requests[i].is_admitted &&
                    is_older(&engine->requests[i], request);
    assert(has_older);
    give_blocks_back(engine, request);
    decide(engine, 1000000u + id);
}

/* What the cache has of the group's blocks; computed ones only, and never the whole sequence. */
static bool can_use_group(struct pretend_engine *engine, const struct pretend_request *request)
{
    const struct pretend_group *group = group_of(engine, request);
    return group && group->is_computed &&
           request->arrival.prompt_tokens > group->n_blocks * engine->options.block_tokens;
}

static void tell_prefixes(struct pretend_engine *engine)
{
    for (uint32_t i = 0; i < engine->requests_max; i++) {
        const struct pretend_request *request = &engine->requests[i];
        if (!request->is_known || request->is_admitted || !group_of(engine, request))
            continue;
        const struct pretend_group *group = group_of(engine, request);
        bool is_there = can_use_group(engine, request);
        bool is_held = is_there && group->n_holders > 0;
        schedule_set_prefix(engine->schedule, i,
                            is_there ? group->n_blocks * engine->options.block_tokens : 0,
                            is_held ? group->n_blocks : 0);
    }
}

/* Its blocks as the plan says. False: the pool has not enough. */
static bool grow(struct pretend_engine *engine, struct pretend_request *request, uint32_t n_blocks)
{
    uint32_t n_group = request->holds_group ? group_of(engine, request)->n_blocks : 0;
    assert(n_blocks >= n_group + request->n_blocks);
    uint32_t n_more = n_blocks - n_group - request->n_blocks;
    if (!take(engine, n_more))
        return false;
    request->n_blocks += n_more;
    return true;
}

/* What a paused one gives back is an estimate where blocks are shared: then only a plan may be short. */
static void fall_short(struct pretend_engine *engine, schedule_id id)
{
    bool has_groups = false;
    for (uint32_t i = 0; i < engine->requests_max; i++)
        has_groups |= engine->requests[i].is_known && group_of(engine, &engine->requests[i]);
    assert(has_groups && engine->options.policy == SCHEDULE_MAX_UTILIZATION);
    pretend_give_up(engine, id);
}

static void admit_one(struct pretend_engine *engine, const struct schedule_admission *admission)
{
    schedule_id id = admission->id;
    struct pretend_request *request = &engine->requests[id];
    assert(request->is_known && !request->is_admitted);
    assert(admission->is_resumed == request->was_admitted);
    assert(admission->n_tokens == request->n_tokens);
    assert(admission->n_blocks == blocks_of(engine, request->n_tokens));
    request->is_admitted = request->was_admitted = true;
    if (can_use_group(engine, request)) {
        struct pretend_group *group = group_of(engine, request);
        bool was_held = group->n_holders++ > 0;
        request->holds_group = true;
        request->n_kv = group->n_blocks * engine->options.block_tokens;
        schedule_set_prefix(engine->schedule, id, request->n_kv, was_held ? group->n_blocks : 0);
    } else {
        schedule_set_prefix(engine->schedule, id, 0, 0);
    }
    decide(engine, 2000000u + id);
    if (!grow(engine, request, admission->n_blocks)) {
        fall_short(engine, id);
        return;
    }
    request->fetch_left = request->arrival.fetch_steps;
    if (request->fetch_left > 0)
        schedule_fetch(engine->schedule, id);
    engine->outcome.admitted[engine->outcome.n_admitted++] = id;
}

static void check_promises(const struct pretend_engine *engine)
{
    uint64_t n = 0;
    uint32_t n_admitted = 0, n_of[PRETEND_TENANTS] = {0};
    uint32_t percent = engine->options.tenant_share_percent;
    uint32_t share = (engine->options.sequences_max * percent + 99) / 100;
    bool has_groups = false;
    for (uint32_t i = 0; i < engine->requests_max; i++) {
        const struct pretend_request *request = &engine->requests[i];
        if (!request->is_known || !request->is_admitted)
            continue;
        n_admitted++;
        n_of[request->arrival.tenant]++;
        has_groups |= request->holds_group;
        uint32_t max_new = request->arrival.max_new_tokens;
        n += blocks_of(engine, request->arrival.prompt_tokens + (max_new > 0 ? max_new - 1 : 0));
    }
    assert(n_admitted <= engine->options.sequences_max);
    for (uint32_t i = 0; i < PRETEND_TENANTS; i++)
        assert(n_of[i] <= share);
    if (engine->options.policy != SCHEDULE_MAX_UTILIZATION && !has_groups)
        assert(n <= engine->options.n_blocks);
}

static void capacity(struct pretend_engine *engine)
{
    struct schedule_changes changes;
    struct schedule_counts before;
    uint32_t n_available = engine->n_free + n_cached_blocks(engine);
    schedule_count(engine->schedule, &before);
    tell_prefixes(engine);
    schedule_capacity(
        engine->schedule,
        &(struct schedule_room){.n_blocks_available = n_available, .n_handovers_free = UINT32_MAX},
        &changes);
    assert(changes.n_paused == 0 || changes.n_admitted == 0);
    if (engine->options.policy == SCHEDULE_STATIC_BATCH && changes.n_admitted > 0)
        assert(before.n_admitted == 0);
    if (before.n_admitted == 0 && before.n_waiting > 0 && engine->n_stolen == 0)
        assert(changes.n_admitted > 0);
    for (uint32_t i = 0; i < changes.n_paused; i++)
        pause_one(engine, changes.paused[i]);
    for (uint32_t i = 0; i < changes.n_admitted; i++)
        admit_one(engine, &changes.admitted[i]);
    engine->outcome.n_paused = changes.n_paused;
    check_promises(engine);
    check_blocks(engine);
}

/* ---- the second question: tokens ---- */

static void serve(struct pretend_engine *engine, struct pretend_request *request, uint32_t n)
{
    request->n_kv += n;
    if (request->n_kv > request->n_best_kv) {
        uint32_t n_before = request->n_kv - n;
        uint32_t n_known = n_before > request->n_best_kv ? n_before : request->n_best_kv;
        engine->served[request->arrival.tenant] += request->n_kv - n_known;
        request->n_best_kv = request->n_kv;
    }
    struct pretend_group *group = group_of(engine, request);
    uint32_t n_group = group ? group->n_blocks * engine->options.block_tokens : 0;
    if (!group || request->holds_group || group->is_computed || group->n_holders > 0 ||
        request->arrival.prompt_tokens <= n_group || request->n_kv < n_group)
        return;
    group->is_computed = request->holds_group = true; /* its first blocks become the group's */
    group->n_holders = 1;
    request->n_blocks -= group->n_blocks;
}

static void draw(struct pretend_engine *engine, schedule_id id)
{
    struct pretend_request *request = &engine->requests[id];
    const struct pretend_arrival *arrival = &request->arrival;
    uint32_t n_end = arrival->prompt_tokens + arrival->generates;
    request->n_tokens++;
    engine->outcome.drew[engine->outcome.n_drew++] = id;
    for (uint32_t i = 0; i < arrival->runs_ahead && request->n_tokens < n_end &&
                         schedule_state_of(engine->schedule, id) == SCHEDULE_DECODING;
         i++) {
        schedule_run_ahead(engine->schedule, id);
        request->n_tokens++;
    }
}

static void end_if_over(struct pretend_engine *engine, schedule_id id)
{
    const struct pretend_request *request = &engine->requests[id];
    const struct pretend_arrival *arrival = &request->arrival;
    bool has_prompt = request->n_kv >= arrival->prompt_tokens;
    if (!has_prompt || request->n_tokens < arrival->prompt_tokens + arrival->generates)
        return;
    if (arrival->lease_steps > 0) {
        assert(schedule_state_of(engine->schedule, id) == SCHEDULE_DONE);
        engine->requests[id].lease_left = arrival->lease_steps;
        return;
    }
    engine->outcome.ended[engine->outcome.n_ended++] = id;
    pretend_cancel(engine, id);
}

static void end_leases(struct pretend_engine *engine)
{
    for (uint32_t id = 0; id < engine->requests_max; id++) {
        struct pretend_request *request = &engine->requests[id];
        if (!request->is_known || request->lease_left == 0 || --request->lease_left > 0)
            continue;
        engine->outcome.ended[engine->outcome.n_ended++] = id;
        pretend_cancel(engine, id);
    }
}

static void fetch(struct pretend_engine *engine)
{
    for (uint32_t id = 0; id < engine->requests_max; id++) {
        struct pretend_request *request = &engine->requests[id];
        if (!request->is_known || request->fetch_left == 0 || --request->fetch_left > 0)
            continue;
        bool had_token = request->n_tokens > request->arrival.prompt_tokens;
        if (request->arrival.fetch_fails) {
            schedule_fetch_failed(engine->schedule, id);
            continue;
        }
        if (!had_token && request->arrival.generates > 0) {
            schedule_computed(engine->schedule, id, 0, 1);
            draw(engine, id);
        }
        schedule_fetched(engine->schedule, id);
        serve(engine, request, request->arrival.prompt_tokens - request->n_kv);
        end_if_over(engine, id);
    }
}

static void check_work(const struct pretend_engine *engine, const struct schedule_work *work,
                       bool is_chunk)
{
    const struct pretend_request *request = &engine->requests[work->id];
    uint32_t block_tokens = engine->options.block_tokens;
    uint32_t n_end = work->first + work->n_tokens;
    assert(request->is_known && request->is_admitted);
    assert(request->fetch_left == 0 && request->lease_left == 0);
    assert(work->n_tokens > 0 && work->first == request->n_kv && n_end <= request->n_tokens);
    assert(work->draws == (n_end == request->n_tokens));
    bool runs_ahead = request->arrival.runs_ahead > 0 &&
                      work->first >= request->arrival.prompt_tokens;
    assert(work->draws || n_end % block_tokens == 0 || runs_ahead);
    assert(work->n_tokens <= engine->options.chunk_tokens || runs_ahead);
    assert(is_chunk || work->n_tokens == 1);
    assert(work->n_known >= n_end && work->n_known == request->n_tokens);
    assert(work->n_blocks == blocks_of(engine, work->n_known));
}

/* Checks all of it first: doing it changes what there is to check. */
static void check_batch(const struct pretend_engine *engine, const struct schedule_batch *batch)
{
    uint32_t n_tokens = 0;
    assert(batch->n <= engine->options.sequences_max && batch->n_chunks <= batch->n);
    for (uint32_t i = 0; i < batch->n; i++) {
        check_work(engine, &batch->work[i], i < batch->n_chunks);
        n_tokens += batch->work[i].n_tokens;
        for (uint32_t j = 0; j < i && batch->n < 32; j++)
            assert(batch->work[j].id != batch->work[i].id);
    }
    assert(n_tokens == batch->n_tokens && n_tokens <= engine->options.batch_tokens);
}

static void do_work(struct pretend_engine *engine, const struct schedule_work *work, bool is_chunk)
{
    struct pretend_outcome *outcome = &engine->outcome;
    struct pretend_request *request = &engine->requests[work->id];
    if (!grow(engine, request, work->n_blocks)) {
        fall_short(engine, work->id);
        return;
    }
    bool draws = work->draws && request->arrival.generates > 0;
    schedule_computed(engine->schedule, work->id, work->n_tokens, draws);
    decide(engine, 3000000u + work->id * 4096u + work->n_tokens);
    *(is_chunk ? &outcome->n_prompt_tokens : &outcome->n_decodes) += work->n_tokens;
    outcome->n_past += work->first;
    serve(engine, request, work->n_tokens);
    if (draws)
        draw(engine, work->id);
    end_if_over(engine, work->id);
}

bool pretend_step(struct pretend_engine *engine)
{
    struct schedule_batch batch;
    struct pretend_outcome *outcome = &engine->outcome;
    outcome->n_prompt_tokens = outcome->n_decodes = 0;
    outcome->n_past = 0;
    outcome->n_drew = outcome->n_ended = outcome->n_admitted = outcome->n_paused = 0;
    fetch(engine);
    end_leases(engine);
    capacity(engine);
    schedule_batch(engine->schedule, &batch);
    check_batch(engine, &batch);
    for (uint32_t i = 0; i < batch.n; i++)
        do_work(engine, &batch.work[i], i < batch.n_chunks);
    check_blocks(engine);
    return batch.n > 0 || outcome->n_admitted > 0 || outcome->n_paused > 0;
}
