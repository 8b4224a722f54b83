#include "tests/sim/plan.h"

#include "base/clock.h"
#include "base/random.h"

#define NEVER UINT64_MAX
/* Of all kinds but churn and crowd. */
#define REQUESTS_MAX       32u
#define CHURN_REQUESTS_MAX 128u
#define FAULTS_MAX         8u

static uint32_t below(struct random *random, uint32_t n)
{
    return (uint32_t)random_below(random, n);
}

static uint32_t between(struct random *random, uint32_t least, uint32_t most)
{
    return least + below(random, most - least + 1);
}

static uint64_t ms_between(struct random *random, uint32_t least, uint32_t most)
{
    return (uint64_t)between(random, least * 1000, most * 1000) * NS_PER_US;
}

static bool one_in(struct random *random, uint32_t n)
{
    return below(random, n) == 0;
}

/* A part of a state does not fit into the smallest blocks of 8 bits. */
static void fit_dtype(struct plan *plan)
{
    if (plan->model == ORACLE_RECURRENT && plan->block_tokens == 8 && plan->dtype >= CACHE_INT8)
        plan->dtype = CACHE_BF16;
}

static void draw_workers(struct plan *plan, struct random *random)
{
    static const uint32_t BLOCK_TOKENS[] = {8, 8, 16, 16, 32};
    plan->model = below(random, ORACLE_FULL_GROUPS);
    if (plan->seed % 8 == 5) /* so that other seeds stay what they were */
        plan->model = ORACLE_FULL_GROUPS;
    if (plan->seed % 8 == 2)
        plan->model = ORACLE_RECURRENT;
    if (plan->seed % 8 == 7)
        plan->model = ORACLE_UNEQUAL;
    if (plan->seed % 16 == 3 || plan->seed % 16 == 14)
        plan->model = ORACLE_LATENT;
    if (plan->seed % 16 == 4 || plan->seed % 16 == 9)
        plan->model = plan->seed / 16 % 2 == 0 ? ORACLE_T5 : ORACLE_BART;
    plan->dtype = (enum cache_dtype)below(random, ORACLE_DTYPES);
    plan->n_ctx = between(random, 1, PLAN_WORKERS_MAX);
    plan->n_gen = between(random, 1, PLAN_WORKERS_MAX);
    plan->block_tokens = BLOCK_TOKENS[below(random, 5)];
    fit_dtype(plan);
    plan->chunk_tokens = plan->block_tokens << below(random, 3);
    plan->batch_tokens = plan->chunk_tokens * between(random, 1, 3);
    plan->slots_max = between(random, 1, 6);
    plan->prefills_max = between(random, 1, 6);
    plan->prefix_cache = !one_in(random, 4);
    plan->kv_digest = true;
    plan->local_prefill = !one_in(random, 4);
    plan->local_prefill_max_tokens = one_in(random, 2) ? 0 : between(random, 1, 40);
    plan->attempts_max = between(random, 1, 4);
    plan->window_max = between(random, 1, 16);
}

/* Not from the generator, so that seeds stay what they were. */
static void choose_policy(struct plan *plan)
{
    static const enum schedule_policy POLICIES[] = {SCHEDULE_NO_EVICT, SCHEDULE_MAX_UTILIZATION,
                                                    SCHEDULE_MAX_UTILIZATION,
                                                    SCHEDULE_STATIC_BATCH};
    plan->policy = POLICIES[plan->seed % 4];
    plan->headroom_blocks = (uint32_t)(plan->seed / 4 % 3);
}

/* Of every three seeds one has no tenants, one has some and one has priorities besides. From a generator of its own,
 * so that seeds stay what they were. */
static void draw_standings(struct plan *plan)
{
    static const uint32_t WEIGHTS[] = {1, 3, 1000};
    struct random random;
    random_init(&random, plan->seed ^ 0x7e4a47);
    plan->priority_aging_ms = below(&random, 40);
    for (uint32_t i = 0; i < plan->n_requests && plan->seed % 3 > 0; i++) {
        uint32_t tenant = below(&random, 4);
        plan->requests[i].standing = (struct standing){
            .tenant = tenant,
            .weight = tenant > 0 ? WEIGHTS[tenant - 1] : 0,
            .priority = plan->seed % 3 == 2 ? (int32_t)below(&random, 201) - 100 : 0,
        };
    }
}

/* Blocks for so many of the longest requests. */
static void draw_room(struct plan *plan, struct random *random)
{
    uint32_t longest = ORACLE_CONTEXT_TOKENS / plan->block_tokens;
    bool is_tight = plan->kind != PLAN_CALM && !one_in(random, 3);
    plan->ctx_blocks = is_tight ? between(random, longest / 2, 2 * longest)
                                : longest * REQUESTS_MAX;
    plan->gen_blocks = is_tight ? between(random, longest, 3 * longest) : longest * REQUESTS_MAX;
    plan->queue_max = is_tight ? between(random, 1, 8) : REQUESTS_MAX;
}

static void draw_limits(struct plan *plan, struct random *random)
{
    bool is_calm = plan_is_calm(plan);
    plan->queue_limit_ns = is_calm ? 60 * NS_PER_S : ms_between(random, 5, 2000);
    plan->context_limit_ns = is_calm ? 60 * NS_PER_S : ms_between(random, 50, 1000);
    plan->transfer_limit_ns = is_calm ? 60 * NS_PER_S : ms_between(random, 10, 200);
    plan->commit_limit_ns = is_calm ? 60 * NS_PER_S : ms_between(random, 5, 100);
    plan->lease_limit_ns = plan->transfer_limit_ns + plan->commit_limit_ns;
    plan->caller_share = is_calm ? 100 : 25 * (1 + (uint32_t)(plan->seed % 4));
    plan->quiet_limit_ns = ms_between(random, 5, 300);
    plan->step_ns = ms_between(random, 0, 1);
    plan->token_ns = (uint64_t)between(random, 1, 40) * NS_PER_US;
    plan->rpc_min_ns = (uint64_t)between(random, 5, 200) * NS_PER_US;
    plan->rpc_max_ns = plan->rpc_min_ns + ms_between(random, 0, 3);
}

static void draw_network(struct plan *plan, struct random *random)
{
    bool is_rough = plan->kind == PLAN_ROUGH;
    plan->network = (struct sim_options){
        .seed = random_u64(random),
        .latency_ns = (uint64_t)between(random, 1, 100) * NS_PER_US,
        .jitter_ns = ms_between(random, 0, 2),
        .bytes_per_s = one_in(random, 2) ? 0 : between(random, 1, 200) * 1000000ull,
        .detect_ns = ms_between(random, 0, 200),
        .close_ns = ms_between(random, 0, 3),
        .loss = is_rough && one_in(random, 4) ? 0.02 : 0,
        .duplicate = plan->kind != PLAN_CALM && one_in(random, 3) ? 0.05 : 0,
        .corrupt = is_rough && one_in(random, 4) ? 0.03 : 0,
    };
    /* Without digests nobody can tell damaged bytes. */
    if (plan->network.corrupt == 0 && one_in(random, 4))
        plan->kv_digest = false;
}

/* Lengths at the edges of blocks more often than others. Texts of an encoder are reused as a whole: often equal ones, and those with
 * a token more. */
static uint32_t draw_length(const struct plan *plan, struct random *random)
{
    const uint32_t longest = plan->model == ORACLE_BART ? ORACLE_BART_MAX : ORACLE_PROMPT_MAX;
    if (oracle_has_encoder(plan->model) && !one_in(random, 4))
        return (uint32_t)(plan->seed * 37 % (longest - 1)) + 1 + below(random, 2);
    if (one_in(random, 2))
        return between(random, 1, longest);
    uint32_t n_blocks = between(random, 1, longest / plan->block_tokens - 1);
    return n_blocks * plan->block_tokens + between(random, 0, 2) - 1;
}

/* No generator is asked, so that other runs stay as they are. */
static uint32_t adapter_of(const struct plan *plan, const struct oracle_question *question)
{
    return oracle_has_adapters(plan->model) && plan->seed / 2 % 2 == 0
               ? (question->n_prompt + question->variant + question->family) % (1 + ORACLE_ADAPTERS)
               : 0;
}

static void draw_request(struct plan *plan, struct random *random, struct plan_request *request)
{
    bool is_calm = plan_is_calm(plan);
    *request = (struct plan_request){
        .arrives_ns = ms_between(random, 1, 300),
        .deadline_ns = NEVER,
        .cancel_ns = NEVER,
        .question = {.model = plan->model,
                     .dtype = plan->dtype,
                     .family = below(random, oracle_has_encoder(plan->model) ? 3 : ORACLE_FAMILIES),
                     .n_prompt = draw_length(plan, random),
                     .variant = below(random, ORACLE_VARIANTS)},
        .max_tokens = between(random, is_calm ? 2 : 1, ORACLE_GENERATED_MAX),
        .ignore_eos = is_calm || one_in(random, 2),
        .stop_at = UINT32_MAX,
        .has_salt = one_in(random, 5),
        .slow_after = UINT32_MAX,
    };
    request->question.adapter = adapter_of(plan, &request->question);
    if (is_calm)
        return;
    if (one_in(random, 6))
        request->stop_at = below(random, ORACLE_GENERATED_MAX);
    if (one_in(random, 6))
        request->deadline_ns = request->arrives_ns + ms_between(random, 0, 400);
    else if (!one_in(random, 4))
        request->deadline_ns = request->arrives_ns + 20 * NS_PER_S;
    if (one_in(random, 8))
        request->cancel_ns = request->arrives_ns + ms_between(random, 0, 100);
    if (one_in(random, 30))
        request->slow_after = below(random, ORACLE_GENERATED_MAX);
}

static void draw_fault(struct plan *plan, struct random *random, struct plan_fault *fault)
{
    uint32_t n_workers = plan->n_ctx + plan->n_gen;
    *fault = (struct plan_fault){
        .kind = (enum plan_fault_kind)below(random, FAULT_LEAVE),
        .at_ns = ms_between(random, 0, 350),
        .for_ns = one_in(random, 4) ? ms_between(random, 500, 4000) : ms_between(random, 1, 300),
        .node = 1 + below(random, n_workers),
    };
    if (fault->kind == FAULT_KILL && one_in(random, 6))
        fault->for_ns = 0;
    if (fault->kind == FAULT_CUT) {
        fault->node = 1 + below(random, plan->n_ctx);
        fault->other = 1 + plan->n_ctx + below(random, plan->n_gen);
    }
    if (fault->kind == FAULT_CORRUPT && !plan->kv_digest)
        fault->kind = FAULT_LOSS;
}

void plan_draw(struct plan *plan, uint64_t seed)
{
    static const enum plan_kind KINDS[] = {PLAN_CALM,  PLAN_TIGHT, PLAN_TIGHT, PLAN_ROUGH,
                                           PLAN_ROUGH, PLAN_ROUGH, PLAN_ROUGH, PLAN_ROUGH};
    struct random random;
    random_init(&random, seed);
    *plan = (struct plan){.seed = seed, .kind = KINDS[below(&random, 8)]};
    choose_policy(plan);
    draw_workers(plan, &random);
    draw_room(plan, &random);
    draw_limits(plan, &random);
    draw_network(plan, &random);
    plan->n_requests = between(&random, 1, REQUESTS_MAX / 2);
    for (uint32_t i = 0; i < plan->n_requests; i++)
        draw_request(plan, &random, &plan->requests[i]);
    plan->n_faults = plan->kind == PLAN_ROUGH ? between(&random, 1, FAULTS_MAX) : 0;
    for (uint32_t i = 0; i < plan->n_faults; i++)
        draw_fault(plan, &random, &plan->faults[i]);
    plan->wait_max = one_in(&random, 3) ? 0 : between(&random, 1, REQUESTS_MAX / 2);
    plan->wait_limit_ns = ms_between(&random, 0, 3000);
    draw_standings(plan);
}

/* Kills are left to the router to find out; those that leave are taken off its list at once. */
static void draw_move(struct plan *plan, struct random *random, struct plan_fault *fault)
{
    static const enum plan_fault_kind KINDS[] = {FAULT_KILL,  FAULT_DRAIN, FAULT_LEAVE, FAULT_LEAVE,
                                                 FAULT_LEAVE, FAULT_CRASH, FAULT_CRASH};
    *fault = (struct plan_fault){
        .kind = KINDS[below(random, sizeof KINDS / sizeof *KINDS)],
        .at_ns = ms_between(random, 0, 350),
        .for_ns = ms_between(random, 1, 300),
        .node = 1 + below(random, plan->n_ctx + plan->n_gen),
    };
    if (fault->kind == FAULT_CRASH && one_in(random, 6))
        fault->for_ns = 0;
}

void plan_draw_churn(struct plan *plan, uint64_t seed)
{
    struct random random;
    random_init(&random, seed ^ 0xc0c0);
    *plan = (struct plan){.seed = seed, .kind = PLAN_CHURN};
    choose_policy(plan);
    draw_workers(plan, &random);
    draw_room(plan, &random);
    draw_limits(plan, &random);
    draw_network(plan, &random);
    plan->n_ctx = between(&random, PLAN_CHURN_MAX / 4, PLAN_CHURN_MAX * 3 / 4);
    plan->n_gen = PLAN_CHURN_MAX - plan->n_ctx;
    plan->ctx_blocks = plan->gen_blocks = 3 * ORACLE_CONTEXT_TOKENS / plan->block_tokens;
    plan->queue_max = 8;
    plan->token_ns = (uint64_t)between(&random, 100, 2000) *
                     NS_PER_US; /* so that much is under way */
    plan->n_requests = between(&random, CHURN_REQUESTS_MAX / 2, CHURN_REQUESTS_MAX);
    for (uint32_t i = 0; i < plan->n_requests; i++)
        draw_request(plan, &random, &plan->requests[i]);
    plan->n_faults = between(&random, PLAN_FAULTS_MAX / 2, PLAN_FAULTS_MAX);
    for (uint32_t i = 0; i < plan->n_faults; i++)
        draw_move(plan, &random, &plan->faults[i]);
    plan->wait_max = between(&random, 1, CHURN_REQUESTS_MAX);
    plan->wait_limit_ns = ms_between(&random, 0, 3000);
    draw_standings(plan);
}

/* A long generation behind a prompt that leaves room for it. */
static void lengthen(const struct plan *plan, struct random *random, struct plan_request *request)
{
    uint32_t n_prompt_max = ORACLE_CONTEXT_TOKENS - ORACLE_LONG_MAX;
    uint64_t earlier_ns = request->arrives_ns;
    request->arrives_ns = ms_between(random, 1, 40);
    if (request->cancel_ns != NEVER)
        request->cancel_ns += request->arrives_ns - earlier_ns;
    if (request->deadline_ns != NEVER)
        request->deadline_ns += request->arrives_ns - earlier_ns;
    request->max_tokens = between(random, ORACLE_LONG_MAX / 2, ORACLE_LONG_MAX);
    if (request->question.n_prompt > n_prompt_max)
        request->question.n_prompt = n_prompt_max - below(random, plan->block_tokens);
}

void plan_draw_pauses(struct plan *plan, uint64_t seed)
{
    struct random random;
    random_init(&random, seed ^ 0x9a05e5);
    *plan = (struct plan){.seed = seed, .kind = seed % 2 == 0 ? PLAN_PAUSES : PLAN_ROUGH};
    draw_workers(plan, &random);
    draw_room(plan, &random);
    draw_limits(plan, &random);
    draw_network(plan, &random);
    uint32_t longest = ORACLE_CONTEXT_TOKENS / plan->block_tokens;
    plan->policy = SCHEDULE_MAX_UTILIZATION;
    plan->headroom_blocks = below(&random, 3);
    plan->n_gen = between(&random, 1, 2);
    plan->slots_max = between(&random, 3, 8);
    plan->gen_blocks = between(&random, longest, 2 * longest);
    plan->ctx_blocks = longest * REQUESTS_MAX;
    plan->queue_max = REQUESTS_MAX;
    plan->n_requests = between(&random, 4, REQUESTS_MAX / 2);
    for (uint32_t i = 0; i < plan->n_requests; i++) {
        draw_request(plan, &random, &plan->requests[i]);
        lengthen(plan, &random, &plan->requests[i]);
    }
    plan->n_faults = plan->kind == PLAN_ROUGH ? between(&random, 1, FAULTS_MAX) : 0;
    for (uint32_t i = 0; i < plan->n_faults; i++)
        draw_fault(plan, &random, &plan->faults[i]);
    plan->wait_max = REQUESTS_MAX / 2;
    plan->wait_limit_ns = ms_between(&random, 0, 3000);
    draw_standings(plan);
}

/* Seeds of the kind have a tier, and prompts come again when others have pushed them out. */
void plan_draw_tiers(struct plan *plan, uint64_t seed)
{
    struct random random;
    random_init(&random, seed ^ 0x71e25);
    *plan = (struct plan){.seed = 3 * seed, .kind = PLAN_ROUGH};
    choose_policy(plan);
    draw_workers(plan, &random);
    draw_room(plan, &random);
    draw_limits(plan, &random);
    draw_network(plan, &random);
    const uint32_t longest = ORACLE_CONTEXT_TOKENS / plan->block_tokens;
    plan->prefix_cache = true;
    plan->n_ctx = plan->n_gen = 1;
    plan->slots_max = between(&random, 1, 3);
    plan->gen_blocks = plan->ctx_blocks = between(&random, longest, longest + longest / 2);
    plan->queue_max = REQUESTS_MAX;
    plan->n_requests = between(&random, REQUESTS_MAX / 2, REQUESTS_MAX);
    for (uint32_t i = 0; i < plan->n_requests; i++) {
        struct plan_request *request = &plan->requests[i];
        const uint64_t later_ns = i / 4 * 200 * NS_PER_MS;
        draw_request(plan, &random, request);
        request->has_salt = false;
        request->arrives_ns += later_ns;
        request->deadline_ns += request->deadline_ns == NEVER ? 0 : later_ns;
        request->cancel_ns += request->cancel_ns == NEVER ? 0 : later_ns;
    }
    plan->n_faults = below(&random, 4);
    for (uint32_t i = 0; i < plan->n_faults; i++)
        draw_fault(plan, &random, &plan->faults[i]);
    plan->wait_max = REQUESTS_MAX / 2;
    plan->wait_limit_ns = ms_between(&random, 0, 3000);
}

void plan_draw_slow(struct plan *plan, uint64_t seed)
{
    struct random random;
    random_init(&random, seed ^ 0x5103);
    *plan = (struct plan){.seed = seed, .kind = PLAN_SLOW};
    choose_policy(plan);
    draw_workers(plan, &random);
    draw_room(plan, &random);
    draw_limits(plan, &random);
    draw_network(plan, &random);
    /* A step is short beside the limit, as it is where both are what they are by default. */
    plan->block_tokens = 8;
    fit_dtype(plan);
    plan->chunk_tokens = 4 * plan->block_tokens;
    plan->batch_tokens = 2 * plan->chunk_tokens;
    plan->ctx_blocks = plan->gen_blocks = REQUESTS_MAX * ORACLE_CONTEXT_TOKENS / plan->block_tokens;
    plan->queue_max = REQUESTS_MAX;
    plan->token_ns = ms_between(&random, 20, 40);
    if (oracle_has_encoder(plan->model))
        plan->token_ns /= 4; /* whose steps have a whole line more */
    plan->step_ns = ms_between(&random, 0, 30);
    plan->step_target_ns = ms_between(&random, 50, 200);
    plan->context_limit_ns = ms_between(&random, 3000, 4000);
    plan->context_limit_max_ns = 600 * NS_PER_S;
    plan->queue_limit_ns = plan->context_limit_max_ns;
    plan->commit_limit_ns = ms_between(&random, 20, 100);
    /* Of two or three, each shorter with all that is beside it than the limit. */
    plan->cold_layer_ns = ms_between(&random, 500, 1600);
    plan->layer_ns = ms_between(&random, 0, 100);
    plan->n_requests = between(&random, 4, REQUESTS_MAX / 4);
    if (seed % 4 == 0) { /* every step is as long */
        plan->layer_ns = plan->cold_layer_ns;
        plan->n_requests = between(&random, 4, 6);
    }
    for (uint32_t i = 0; i < plan->n_requests; i++)
        draw_request(plan, &random, &plan->requests[i]);
    plan->wait_max = REQUESTS_MAX / 2;
    plan->wait_limit_ns = plan->context_limit_max_ns;
    draw_standings(plan);
}

/* Nothing is short but what the kind makes so, and no prompt stays where it is decoded for being short. Returns the blocks of the
 * longest request. */
static uint32_t draw_ample(struct plan *plan, struct random *random)
{
    draw_workers(plan, random);
    draw_limits(plan, random);
    draw_network(plan, random);
    plan->policy = SCHEDULE_NO_EVICT;
    plan->local_prefill_max_tokens = 0;
    plan->attempts_max = 3;
    plan->wait_max = PLAN_REQUESTS_MAX;
    plan->wait_limit_ns = 40 * NS_PER_S;
    return ORACLE_CONTEXT_TOKENS / plan->block_tokens;
}

/* The four that were seen, of every four seeds: a small generation worker of two and of six, a small context worker of three
 * where prompts must cross, and where they need not. */
void plan_draw_crowd(struct plan *plan, uint64_t seed)
{
    static const struct {
        uint32_t n_ctx, n_gen, n_requests;
        bool is_ctx_small, local_prefill;
    } CROWDS[] = {{3, 2, 160, false, true},
                  {6, 6, 500, false, true},
                  {3, 3, 120, true, false},
                  {3, 3, 120, true, true}};
    struct random random;
    uint32_t crowd = (uint32_t)(seed % 4);
    random_init(&random, seed ^ 0xc4a0d);
    *plan = (struct plan){.seed = seed, .kind = PLAN_CROWD};
    const uint32_t longest = draw_ample(plan, &random);
    plan->n_ctx = CROWDS[crowd].n_ctx;
    plan->n_gen = CROWDS[crowd].n_gen;
    plan->small_node = CROWDS[crowd].is_ctx_small ? 1 + below(&random, plan->n_ctx)
                                                  : 1 + plan->n_ctx + below(&random, plan->n_gen);
    plan->local_prefill = CROWDS[crowd].local_prefill;
    plan->slots_max = 8;
    plan->prefills_max = 4 * plan->slots_max; /* so that none is local for want of one */
    plan->queue_max = PLAN_REQUESTS_MAX;
    plan->ctx_blocks = plan->gen_blocks = longest * plan->slots_max;
    plan->token_ns = (uint64_t)between(&random, 100, 300) * NS_PER_US;
    plan->n_requests = CROWDS[crowd].n_requests;
    for (uint32_t i = 0; i < plan->n_requests; i++) {
        draw_request(plan, &random, &plan->requests[i]);
        plan->requests[i].arrives_ns = ms_between(&random, 20, 200);
    }
    draw_standings(plan);
}

/* Of each two the second comes when the first is cancelled: while that computes, or is handed over. */
void plan_draw_again(struct plan *plan, uint64_t seed)
{
    struct random random;
    random_init(&random, seed ^ 0xa9a13);
    *plan = (struct plan){.seed = seed, .kind = PLAN_AGAIN};
    const uint32_t longest = draw_ample(plan, &random);
    plan->n_ctx = 1;
    plan->n_gen = 1 + seed % 2;
    plan->local_prefill = true;
    plan->n_requests = REQUESTS_MAX;
    plan->slots_max = plan->prefills_max = plan->queue_max = 2 * REQUESTS_MAX;
    plan->ctx_blocks = plan->gen_blocks = longest * 2 * REQUESTS_MAX;
    for (uint32_t i = 0; i < plan->n_requests; i++) {
        struct plan_request *request = &plan->requests[i];
        draw_request(plan, &random, request);
        request->name = i / 2;
        if (i % 2 == 0)
            request->cancel_ns = request->arrives_ns + ms_between(&random, 0, 40);
        else
            request->arrives_ns = plan->requests[i - 1].cancel_ns + 1;
    }
    draw_standings(plan);
}

/* Replies that drop spans, of prompts that are shorter and longer than what a reply sees, some with a window of their own. */
void plan_draw_sinks(struct plan *plan, uint64_t seed)
{
    struct random random;
    random_init(&random, seed ^ 0x51c5);
    *plan = (struct plan){.seed = seed, .kind = seed % 3 == 0 ? PLAN_CALM : PLAN_ROUGH};
    draw_workers(plan, &random);
    draw_room(plan, &random);
    draw_limits(plan, &random);
    draw_network(plan, &random);
    plan->has_sinks = true;
    plan->model = ORACLE_SINKS_MODEL;
    plan->policy = seed % 2 ? SCHEDULE_NO_EVICT : SCHEDULE_STATIC_BATCH; /* none may pause */
    plan->n_requests = between(&random, 2, REQUESTS_MAX / 2);
    for (uint32_t i = 0; i < plan->n_requests; i++) {
        struct plan_request *request = &plan->requests[i];
        draw_request(plan, &random, request);
        request->question.model = plan->model;
        request->question.n_prompt = between(&random, 1, ORACLE_SINKS_CONTEXT - 8);
        request->question.reply_window = one_in(&random, 3) ? ORACLE_SINKS_NARROW : 0;
        request->max_tokens = between(&random, 2, ORACLE_SINKS_REPLY);
    }
    plan->n_faults = plan->kind == PLAN_ROUGH ? between(&random, 1, FAULTS_MAX) : 0;
    for (uint32_t i = 0; i < plan->n_faults; i++)
        draw_fault(plan, &random, &plan->faults[i]);
    plan->wait_max = REQUESTS_MAX / 2;
    plan->wait_limit_ns = ms_between(&random, 0, 3000);
    draw_standings(plan);
}
