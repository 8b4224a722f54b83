#include "tests/sim/router_node.h"

#include "router/requests/generation.h"
#include "tests/sim/client_beams.h"
#include "tests/sim/messages.h"
#include "tests/sim/worker_node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LATE_NS NS_PER_S /* no request may end later than its deadline plus this */

/* ---- clients ---- */

static bool is_known_failure(const struct client *client, enum status status)
{
    switch (status) {
    case STATUS_TIMED_OUT:
        return client->plan->deadline_ns != UINT64_MAX;
    case STATUS_CANCELLED:
        return client->is_cancelled;
    case STATUS_SLOW_READER:
        return client->plan->slow_after != UINT32_MAX;
    case STATUS_NO_BLOCKS:
    case STATUS_QUEUE_FULL:
    case STATUS_DRAINING:
    case STATUS_TRANSFER_FAILED:
    case STATUS_PEER_LOST:
    case STATUS_NO_GENERATION_WORKER:
    case STATUS_NO_CONTEXT_WORKER:
        return true;
    default:
        return false;
    }
}

/* Blocks of the state, and those with a token that the one behind the prompt sees, or the one behind its last whole span, without those held. */
static uint64_t n_crossing(const struct geometry *geometry, uint32_t n_prompt, uint32_t n_held,
                           uint32_t reply_window)
{
    const uint32_t block_tokens = geometry->block_tokens;
    const struct sink_window sinks = sink_window_of(&geometry->sinks, reply_window);
    const uint32_t n_dropped = sink_window_dropped(&sinks, block_tokens, n_prompt);
    uint64_t n = geometry->groups.n_state;
    if (n_dropped > 0)
        return (n_prompt + block_tokens - 1) / block_tokens - n_dropped;
    for (uint32_t group = 0; group < geometry->groups.n; group++)
        for (uint32_t first = n_held - n_held % block_tokens; first < n_prompt;
             first += block_tokens) {
            const uint32_t window = geometry->groups.all[group].window;
            const uint32_t next = n_prompt / block_tokens * block_tokens;
            n += window == 0 || first + block_tokens - 1 + window > next;
        }
    return n;
}

/* Usage counts an encoder's text, which is found whole; its line ends its last block. */
static uint32_t cached_of_line(const struct client *client, const struct encoder_line *line,
                               uint32_t n_cached)
{
    const uint32_t n_text = client->plan->question.n_prompt;
    if (line->text_max == 0 || n_cached == 0)
        return n_cached;
    client->cluster->totals->texts_found++;
    if (n_cached != n_text)
        cluster_fail(client->cluster, "r%u: %u of a text of %u tokens were found", client->index,
                     n_cached, n_text);
    return encoder_line_reply_at(line, n_text);
}

/* It has crossed whole, or was held whole. */
static void judge_text(const struct client *client, const struct encoder_line *line,
                       uint32_t n_held, bool is_fetched)
{
    struct totals *totals = client->cluster->totals;
    totals->texts++;
    const struct plan *plan = client->cluster->plan;
    const bool has_crossed = is_fetched && n_held == 0;
    totals->texts_crossed += has_crossed;
    totals->texts_narrow += has_crossed && plan->dtype >= CACHE_INT8;
    totals->texts_of_bart += has_crossed && plan->model == ORACLE_BART;
    totals->forced_last += client->n_tokens == client->plan->max_tokens &&
                           oracle_forced_last(client->cluster->oracle, plan->model) != TOKEN_NONE;
    if (n_held != 0 && n_held != encoder_line_reply_at(line, client->plan->question.n_prompt))
        cluster_fail(client->cluster, "r%u: %u tokens of its line were held", client->index,
                     n_held);
}

/* The parts of a prompt add up, and as many bytes crossed as its blocks have. */
static void judge_accounts(struct cluster *cluster, const struct client *client,
                           const struct gen_finish *finish)
{
    const struct geometry geometry = worker_node_geometry(cluster, true);
    const struct geometry ours = worker_node_geometry(cluster, false);
    const uint32_t least = geometry.block_tokens < ours.block_tokens ? geometry.block_tokens
                                                                     : ours.block_tokens;
    const struct encoder_line line = oracle_line(cluster->plan->model, geometry.block_tokens);
    const uint32_t n_prompt = encoder_line_tokens(&line, client->plan->question.n_prompt);
    const struct gen_timing *timing = &finish->timing;
    uint64_t expected_bytes = 0;
    /* A request that ended with its first token needed no KV. */
    bool is_short = client->replies ? client_is_short(client) : finish->generated_tokens == 1;
    bool is_fetched = finish->context_worker[0] != '\0' && !is_short;
    uint32_t n_held = n_prompt - timing->kv_tokens_received;
    if (is_fetched)
        expected_bytes = n_crossing(&geometry, n_prompt, n_held,
                                    client->plan->question.reply_window) *
                         geometry_block_bytes(&geometry);
    cluster->totals->latents_crossed += is_fetched && cluster->plan->model == ORACLE_LATENT;
    if (is_fetched && client->n_commits == 0)
        cluster_fail(cluster, "r%u used KV that no commit granted", client->index);
    cluster->kv_bytes_expected += expected_bytes;
    bool must_cross = cluster->plan->kind == PLAN_CROWD || cluster->plan->kind == PLAN_AGAIN;
    if (must_cross && finish->place != GEN_PLACE_CONTEXT_WORKER) {
        cluster->totals->local_prompts++;
        cluster_fail(cluster, "r%u: its prompt was computed where it is decoded (%d)",
                     client->index, (int)finish->place);
    }
    if (finish->prompt_tokens != client->plan->question.n_prompt ||
        finish->generated_tokens != client->n_tokens)
        cluster_fail(cluster, "r%u: usage says %u + %u", client->index, finish->prompt_tokens,
                     finish->generated_tokens);
    const uint32_t n_cached = cached_of_line(client, &line, finish->cached_tokens);
    /* Whole blocks were held or found, and never the last token. */
    bool is_odd = n_cached % least != 0 || n_cached >= n_prompt ||
                  (is_fetched && n_held % ours.block_tokens != 0);
    bool is_sum = is_fetched ? timing->kv_tokens_recomputed == 0
                             : timing->kv_tokens_recomputed + n_cached == n_prompt;
    if (line.text_max > 0)
        judge_text(client, &line, is_fetched ? n_held : 0, is_fetched);
    if (is_odd || (!is_short && (timing->kv_bytes_received != expected_bytes || !is_sum)))
        cluster_fail(
            cluster, "r%u: %u cached + %u received + %u recomputed of %u, %llu bytes of %llu",
            client->index, finish->cached_tokens, timing->kv_tokens_received,
            timing->kv_tokens_recomputed, n_prompt, (unsigned long long)timing->kv_bytes_received,
            (unsigned long long)expected_bytes);
}

/* Replies that dropped spans, and prompts that crossed without those. */
static void count_dropped(const struct client *client, const struct gen_finish *finish)
{
    const struct cluster *cluster = client->cluster;
    const struct geometry geometry = worker_node_geometry(cluster, false);
    const struct sink_window sinks = sink_window_of(&geometry.sinks,
                                                    client->plan->question.reply_window);
    const uint32_t n_prompt = client->plan->question.n_prompt;
    const bool has_crossed = finish->context_worker[0] != '\0' && finish->generated_tokens > 1;
    cluster->totals->replies_dropping += sink_window_dropped(&sinks, geometry.block_tokens,
                                                             n_prompt + client->n_tokens - 1) > 0;
    cluster->totals->crossed_short += has_crossed &&
                                      sink_window_dropped(&sinks, geometry.block_tokens, n_prompt) >
                                          0;
    cluster->totals->narrow += client->plan->question.reply_window != 0;
}

static void judge_end(struct cluster *cluster, struct client *client, enum status status,
                      const char *sentence, const struct gen_finish *finish)
{
    if (status == STATUS_OK) {
        if (client->replies)
            client_judge_replies(client, finish);
        count_dropped(client, finish);
        if (client->n_tokens != client->n_expected || finish->reason != client->reason_expected)
            cluster_fail(cluster, "r%u ended well after %u of %u tokens, reason %d, wanted %d",
                         client->index, client->n_tokens, client->n_expected, (int)finish->reason,
                         (int)client->reason_expected);
        judge_accounts(cluster, client, finish);
    } else if (!is_known_failure(client, status) ||
               (plan_is_calm(cluster->plan) && !client->is_cancelled)) {
        cluster_fail(cluster, "r%u failed with %s: %s", client->index, status_name(status),
                     finish ? finish->sentence : sentence);
    }
    /* Both workers compute the same model: they never draw different first tokens. */
    if (finish && strstr(finish->sentence, "first token"))
        cluster_fail(cluster, "r%u: %s", client->index, finish->sentence);
    if (client->plan->deadline_ns != UINT64_MAX &&
        cluster->timeline.now_ns > client->plan->deadline_ns + LATE_NS)
        cluster_fail(cluster, "r%u ended %llu ms after its deadline", client->index,
                     (unsigned long long)(cluster->timeline.now_ns - client->plan->deadline_ns) /
                         NS_PER_MS);
}

static void end_client(struct client *client, enum status status, const char *sentence,
                       const struct gen_finish *finish)
{
    struct cluster *cluster = client->cluster;
    struct totals *totals = cluster->totals;
    cluster_trace(cluster, "r%u %s tokens=%u/%u %s", client->index, status_name(status),
                  client->n_tokens, client->n_expected, sentence);
    if (client->n_ends++ > 0)
        cluster_fail(cluster, "r%u ended twice", client->index);
    client->status = status;
    cluster->n_live_clients--;
    totals->requests++;
    totals->by_status[status]++;
    totals->cancelled += status == STATUS_CANCELLED;
    totals->adapted += client->plan->question.adapter > 0 && status == STATUS_OK;
    totals->scored += client->wants_scores && status == STATUS_OK;
    *(status == STATUS_OK ? &totals->ok : &totals->failed) += 1;
    judge_end(cluster, client, status, sentence, finish);
}

static const struct request_adapter *adapter_of(const struct client *client)
{
    const struct oracle_question *question = &client->plan->question;
    return oracle_adapter(client->cluster->oracle, question->model, question->adapter);
}

static void on_arrival(void *arg)
{
    struct client *client = arg;
    struct cluster *cluster = client->cluster;
    const struct request_adapter *adapter = adapter_of(client);
    const struct route_request request = {
        .beside = NOBODY,
        .adapter = adapter ? adapter_id_key(&adapter->id) : 0,
        .token_ids = client->prompt,
        .n_tokens = client->plan->question.n_prompt,
        .max_tokens = client->plan->max_tokens,
        .salt = client->plan->has_salt ? "salt" : "",
        .salt_bytes = client->plan->has_salt ? 4 : 0,
        .deadline_ns = client->plan->deadline_ns,
        .standing = client->plan->standing,
    };
    cluster_trace(cluster, "r%u arrives prompt=%u max_tokens=%u family=%u", client->index,
                  request.n_tokens, request.max_tokens, client->plan->question.family);
    enum status status = router_core_generate(cluster->router, client, &request);
    if (status != STATUS_OK)
        end_client(client, status, "", NULL);
}

static void on_cancel(void *arg)
{
    struct client *client = arg;
    client->is_cancelled = true;
    if (client->n_ends == 0)
        router_core_cancel(client->cluster->router, client);
}

/* Token i of the right answer. */
static uint32_t expected_token(const struct client *client, uint32_t i)
{
    const uint32_t last = oracle_forced_last(client->cluster->oracle, client->plan->question.model);
    return i + 1 == client->plan->max_tokens && last != TOKEN_NONE ? last : client->expected[i];
}

/* Where the right answer ends, by the request's own rules. */
static void expect(struct client *client)
{
    struct cluster *cluster = client->cluster;
    const struct plan_request *plan = client->plan;
    const struct model_config *config = model_get_config(
        oracle_model(cluster->oracle, plan->question.model));
    if (client->replies) {
        const struct oracle_reply *best = &client->replies->all[0];
        client->n_expected = best->n_tokens;
        client->reason_expected = best->is_end ? GEN_FINISH_STOP : GEN_FINISH_LENGTH;
        return;
    }
    client->expected = oracle_answer(cluster->oracle, &plan->question, plan->max_tokens);
    client->reason_expected = GEN_FINISH_LENGTH;
    client->n_expected = plan->max_tokens;
    for (uint32_t i = 0; i < plan->max_tokens; i++) {
        uint32_t token = expected_token(client, i);
        bool is_stop = client->sampling.n_stop_token_ids > 0 &&
                       client->sampling.stop_token_ids[0] == token;
        for (uint32_t j = 0; !plan->ignore_eos && j < config->n_eos_ids; j++)
            is_stop |= config->eos_ids[j] == token;
        if (!is_stop)
            continue;
        client->reason_expected = GEN_FINISH_STOP;
        client->n_expected = i + 1;
        return;
    }
}

void router_node_add_client(struct cluster *cluster, uint32_t index)
{
    struct client *client = &cluster->clients[index];
    const struct plan_request *plan = &cluster->plan->requests[index];
    *client = (struct client){.cluster = cluster, .index = index, .plan = plan};
    client->prompt = wire_alloc(&cluster->wire, plan->question.n_prompt * sizeof(uint32_t));
    oracle_prompt(cluster->oracle, plan->question.model, plan->question.family,
                  plan->question.n_prompt, client->prompt);
    client->sampling = oracle_sampling(plan->question.variant);
    client->sampling.max_tokens = plan->max_tokens;
    client->sampling.ignore_eos = plan->ignore_eos;
    client->sampling.reply_window = plan->question.reply_window;
    client->wants_scores = plan->question.variant == 4 && index % 2 == 1 &&
                           !cluster->plan->has_sinks && !oracle_has_encoder(cluster->plan->model);
    client->sampling.n_prompt_logprobs = client->wants_scores ? 2 : 0;
    if (plan->stop_at != UINT32_MAX) {
        client->sampling.n_stop_token_ids = 1;
        client->sampling.stop_token_ids[0] = oracle_answer(cluster->oracle, &plan->question,
                                                           plan->stop_at + 1)[plan->stop_at];
    }
    client_ask_beams(client);
    expect(client);
    cluster->n_live_clients++;
    timeline_at(&cluster->timeline, plan->arrives_ns, on_arrival, client);
    if (plan->cancel_ns != UINT64_MAX)
        timeline_at(&cluster->timeline, plan->cancel_ns, on_cancel, client);
}

/* ---- calls to generation workers ---- */

struct decode_call {
    struct cluster *cluster;
    struct wire_call *call;
    uint64_t attempt;
};

static void on_message(void *arg, const struct wire_message *base)
{
    const struct sim_message *message = (const struct sim_message *)base;
    struct decode_call *call = arg;
    if (base->kind == SIM_TOKENS)
        router_core_tokens(call->cluster->router, call->attempt, message->tokens.n, message);
    else if (base->kind == SIM_SCORES)
        router_core_tokens(call->cluster->router, call->attempt, 0, message);
    else
        router_core_ended(call->cluster->router, call->attempt, message->end.status,
                          message->end.sentence, &message->end.finish);
}

static void on_broken(void *arg)
{
    struct decode_call *call = arg;
    router_core_ended(call->cluster->router, call->attempt, STATUS_PEER_LOST, "the call broke",
                      NULL);
}

static void on_late(void *arg)
{
    struct decode_call *call = arg;
    router_core_ended(call->cluster->router, call->attempt, STATUS_TIMED_OUT, "", NULL);
}

/* What workers know it by, as dispatch has it. */
struct attempt_name {
    struct attempt_name *next;
    struct client *client;
    char id[REQUEST_ID_MAX + 1];
};

static struct attempt_name *name_attempt(struct client *client, uint64_t attempt)
{
    static const struct hash_key KEY = {.bytes = {1}};
    static struct generation generation; /* too large for a stack, as the next */
    static struct choice choice;
    struct cluster *cluster = client->cluster;
    struct attempt_name *name = wire_alloc(&cluster->wire, sizeof *name);
    snprintf(generation.request_id, sizeof generation.request_id, "r%u",
             cluster->plan->kind == PLAN_AGAIN ? client->plan->name : client->index);
    choice.generation = &generation;
    choice.n_attempts = ++client->n_attempts;
    choice_attempt_id(&choice, &KEY, attempt, name->id);
    name->client = client;
    name->next = cluster->attempts;
    cluster->attempts = name;
    return name;
}

struct client *router_node_client_of(struct cluster *cluster, const char *request_id)
{
    struct attempt_name *name = cluster->attempts;
    while (name && strcmp(name->id, request_id) != 0)
        name = name->next;
    if (!name)
        abort();
    return name->client;
}

static void start_decode(void *arg, void *stream, uint64_t attempt, const char *generation_worker,
                         const char *context_worker)
{
    static const struct wire_listener LISTENER = {
        .message = on_message, .broken = on_broken, .late = on_late};
    struct cluster *cluster = arg;
    struct wire *wire = &cluster->wire;
    struct client *client = stream;
    uint32_t node = worker_node_find(cluster, generation_worker);
    cluster_trace(cluster, "r%u placed on %s with %s", client->index, generation_worker,
                  context_worker[0] ? context_worker : "nobody");
    client->n_commits = 0;
    client->placed_on[0] = node;
    client->placed_on[1] = context_worker[0] ? worker_node_find(cluster, context_worker) : 0;
    client->sampling.scores_prompt = client->wants_scores &&
                                     client->n_scored < client->plan->question.n_prompt;
    for (int i = 0; i < 2; i++)
        if (client->placed_on[i] && !cluster->workers[client->placed_on[i]].is_listed)
            cluster_fail(cluster, "r%u placed on %s, which left", client->index,
                         worker_node_address(cluster, client->placed_on[i]));

    struct decode_call *call = wire_alloc(wire, sizeof *call);
    call->cluster = cluster;
    call->attempt = attempt;
    call->call = wire_open(wire, 0, node, client->plan->deadline_ns);
    wire_listen(call->call, WIRE_CLIENT, &LISTENER, call);
    gen_node_accept(&cluster->workers[node], call->call);

    struct sim_message *message = sim_message_new(wire, SIM_DECODE);
    message->decode = (struct gen_request){
        .input = {.request_id = name_attempt(client, attempt)->id,
                  .token_ids = client->prompt,
                  .n_tokens = client->plan->question.n_prompt,
                  .sampling = &client->sampling,
                  .adapter = adapter_of(client),
                  .salt = client->plan->has_salt ? "salt" : "",
                  .salt_bytes = client->plan->has_salt ? 4 : 0,
                  .deadline_ns = client->plan->deadline_ns,
                  .standing = client->plan->standing},
        .ends_when_context_full = true,
        .context_worker = sim_copy(wire, context_worker, strlen(context_worker) + 1),
    };
    wire_send(call->call, WIRE_CLIENT, &message->base);
    client->call = call->call;
}

static void cancel_decode(void *arg, uint64_t attempt)
{
    struct cluster *cluster = arg;
    (void)attempt;
    for (uint32_t i = 0; i < cluster->plan->n_requests; i++) {
        struct client *client = &cluster->clients[i];
        if (client->is_cancelled && client->n_ends == 0 && client->call)
            wire_close(client->call, WIRE_CLIENT);
    }
}

static void on_refused(void *arg, void *stream)
{
    const struct client *client = stream;
    if (client->n_tokens > 0 || client->n_ends > 0)
        cluster_fail(arg, "r%u was refused after a token or its end", client->index);
}

/* Those behind what came before; an attempt that was ended may have told some. */
static void take_scores(struct client *client, const struct prompt_scores *scores)
{
    struct cluster *cluster = client->cluster;
    const float *expected = oracle_scores(cluster->oracle, &client->plan->question);
    const uint32_t end = scores->first + scores->n;
    if (!client->wants_scores || client->n_tokens > 0 || scores->first > client->n_scored ||
        end > client->plan->question.n_prompt)
        cluster_fail(cluster, "r%u: scores %u .. %u came after %u scores and %u tokens",
                     client->index, scores->first, end, client->n_scored, client->n_tokens);
    for (; client->n_scored < end; client->n_scored++) {
        const struct token_logprobs *score = &scores->logprobs[client->n_scored - scores->first];
        if (score->logprob != expected[client->n_scored] ||
            score->n_top != (client->n_scored > 0 ? client->sampling.n_prompt_logprobs : 0))
            cluster_fail(cluster, "r%u: score %u is %g with %u others, wanted %g", client->index,
                         client->n_scored, (double)score->logprob, score->n_top,
                         (double)expected[client->n_scored]);
    }
}

static void on_tokens(void *arg, void *stream, const void *payload)
{
    struct cluster *cluster = arg;
    struct client *client = stream;
    const struct sim_message *message = payload;
    if (message->base.kind == SIM_SCORES) {
        take_scores(client, &message->scores);
        return;
    }
    uint32_t i = client->n_tokens++;
    if (client->wants_scores && client->n_scored < client->plan->question.n_prompt)
        cluster_fail(cluster, "r%u got a token after %u of %u scores", client->index,
                     client->n_scored, client->plan->question.n_prompt);
    if (client->n_ends > 0)
        cluster_fail(cluster, "r%u got a token after its end", client->index);
    if (i >= client->n_expected || expected_token(client, i) != message->tokens.token_id)
        cluster_fail(cluster, "r%u token %u of %u is %u, wanted %u", client->index, i,
                     client->n_expected, message->tokens.token_id,
                     i < client->n_expected ? expected_token(client, i) : 0);
    if (message->tokens.has_logprobs != (client->sampling.n_logprobs > 0))
        cluster_fail(cluster, "r%u: logprobs are missing or were not asked for", client->index);
}

static void on_finish(void *arg, void *stream, enum status status, const char *sentence,
                      const void *payload)
{
    (void)arg;
    end_client(stream, status, sentence, payload);
}

/* ---- the core ---- */

/* In churn there is not room for all of them at once. */
static uint32_t workers_max(const struct cluster *cluster)
{
    uint32_t n = cluster->n_nodes - 1;
    return cluster->plan->kind == PLAN_CHURN ? n * 3 / 4 : n;
}

void router_node_start(struct cluster *cluster)
{
    const struct plan *plan = cluster->plan;
    const struct router_core_options options = {
        .workers_max = workers_max(cluster),
        .requests_max = PLAN_REQUESTS_MAX,
        .attempts_max = plan->attempts_max,
        .prefixes_max = 64,
        .prompt_tokens_max = plan_context_tokens(plan),
        .block_tokens = plan->block_tokens,
        .local_prefill = plan->local_prefill,
        .wait_max = plan->wait_max,
        .wait_limit_ns = plan->wait_limit_ns,
    };
    const struct router_core_ops ops = {.arg = cluster,
                                        .start_decode = start_decode,
                                        .cancel_decode = cancel_decode,
                                        .refused = on_refused,
                                        .tokens = on_tokens,
                                        .finish = on_finish};
    if (router_core_create(&options, &ops, &cluster->router) != STATUS_OK)
        abort();
    for (uint32_t node = 1; node < cluster->n_nodes; node++)
        router_node_join(cluster, node);
}

/* ---- who comes and goes ---- */

void router_node_join(struct cluster *cluster, uint32_t node)
{
    struct worker_node *worker = &cluster->workers[node];
    if (worker->is_listed)
        return;
    enum status status = router_core_add_worker(
        cluster->router, worker->is_ctx ? WORKER_CONTEXT : WORKER_GENERATION,
        worker_node_address(cluster, node), &worker->router_worker);
    worker->is_listed = status == STATUS_OK;
    worker->is_to_be_listed = !worker->is_listed;
    *(worker->is_listed ? &cluster->totals->joins : &cluster->totals->late_joins) += 1;
    if (!worker->is_listed && status != STATUS_QUEUE_FULL)
        cluster_fail(cluster, "node %u cannot join: %s", node, status_name(status));
}

static bool is_busy(const struct cluster *cluster, uint32_t node)
{
    for (uint32_t i = 0; i < cluster->plan->n_requests; i++) {
        const struct client *client = &cluster->clients[i];
        if (client->n_ends == 0 && (client->placed_on[0] == node || client->placed_on[1] == node))
            return true;
    }
    return false;
}

void router_node_leave(struct cluster *cluster, uint32_t node)
{
    struct worker_node *worker = &cluster->workers[node];
    worker->is_to_be_listed = false;
    if (!worker->is_listed)
        return;
    router_core_remove_worker(cluster->router, worker->router_worker);
    worker->is_listed = false;
    cluster->totals->leaves++;
    cluster->totals->busy_leaves += is_busy(cluster, node);
}

void router_node_look(struct cluster *cluster)
{
    router_core_step(cluster->router, cluster->timeline.now_ns);
    for (uint32_t node = 1; node < cluster->n_nodes; node++) {
        if (cluster->workers[node].is_to_be_listed)
            router_node_join(cluster, node);
        worker_node_report(&cluster->workers[node]);
    }
}

/* No call is counted on any worker any more: when all have left, there is room for as many as ever. */
static void judge_room(struct cluster *cluster)
{
    for (uint32_t node = 1; node < cluster->n_nodes; node++)
        router_node_leave(cluster, node);
    if (router_core_n_ready(cluster->router, WORKER_GENERATION) != 0)
        cluster_fail(cluster, "workers that left are ready");
    for (uint32_t node = 1; node <= workers_max(cluster); node++) {
        router_node_join(cluster, node);
        if (!cluster->workers[node].is_listed)
            cluster_fail(cluster, "the router has no room for node %u at rest", node);
    }
}

void router_node_finish(struct cluster *cluster)
{
    struct router_core_stats stats;
    router_core_read_stats(cluster->router, &stats);
    if (!cluster->has_failed)
        judge_room(cluster);
    cluster->totals->retried += stats.retried;
    cluster->totals->waited += stats.waited;
    if (stats.requests != 0)
        cluster_fail(cluster, "the router still knows %u requests", stats.requests);
    router_core_destroy(cluster->router);
    cluster->router = NULL;
}
