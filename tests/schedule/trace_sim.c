/*
 * trace_sim - what a client sees of each capacity policy, in virtual time.
 *
 *     trace_sim [--name=value ...]      --help lists the names, their defaults and what they mean
 *
 * Requests arrive by one of three traces, a pretended worker does what the schedule says, and a step takes
 *
 *     fixed_us + prompt tokens * prompt_us + decodes * decode_us + KV looked back at * past_ns
 *
 * Nothing is random but by the seed and nothing is measured, so a run prints the same on every machine.
 *
 * ttft: from arrival to the first token. itl: between two tokens of a request, pauses included. A request is
 * good when it had its first token within good_ttft_ms and its others within good_itl_ms each, on
 * average; goodput counts good requests a second, until the last one ended.
 */
#include "base/random.h"
#include "tests/schedule/support/pretend_engine.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARGUMENTS(X)                                                                               \
    X(seed, 1, "of all that is drawn")                                                             \
    X(requests, 400, "in a trace")                                                                 \
    X(rate_milli, 12000, "requests that arrive in 1000 s, on average")                             \
    X(burst, 40, "of them at a time, in the trace of bursts")                                      \
    X(max_new, 512, "tokens that each may generate; it ends after 16 to half of them")             \
    X(fixed_us, 4000, "of a step: weights are read once")                                          \
    X(prompt_us, 20, "of a token of a prompt")                                                     \
    X(decode_us, 100, "of a token generated")                                                      \
    X(past_ns, 50, "of a token of KV looked back at")                                              \
    X(blocks, 640, "of the pool")                                                                  \
    X(block_tokens, 16, "of a block")                                                              \
    X(batch_tokens, 512, "of a step at most")                                                      \
    X(chunk_tokens, 256, "of one prompt in a step at most")                                        \
    X(sequences, 64, "admitted at a time")                                                         \
    X(headroom_blocks, 16, "left free by max-utilization")                                         \
    X(good_ttft_ms, 2000, "until the first token of a good request")                               \
    X(good_itl_ms, 50, "between its others, on average")

struct arguments {
#define X(name, value, help) uint32_t name;
    ARGUMENTS(X)
#undef X
};

static void print_help(void)
{
#define X(name, value, help) printf("  --%s=%u  %s\n", #name, (unsigned)value, help);
    ARGUMENTS(X)
#undef X
}

static bool take_argument(struct arguments *arguments, const char *text)
{
    char *end = NULL;
#define X(name, value, help)                                                                       \
    if (strncmp(text, "--" #name "=", sizeof "--" #name) == 0) {                                   \
        unsigned long number = strtoul(text + sizeof "--" #name, &end, 10);                        \
        arguments->name = (uint32_t)number;                                                        \
        return *end == '\0' && number > 0 && number < 1u << 30;                                    \
    }
    ARGUMENTS(X)
#undef X
    return false;
}

/* ---- traces ---- */

enum trace_kind { TRACE_POISSON, TRACE_BURSTS, TRACE_LONG_PROMPTS, TRACE_KINDS };

static const char *const TRACE_NAMES[TRACE_KINDS] = {"poisson", "bursts", "long prompts"};

struct trace_request {
    uint64_t arrives_us, first_us, last_us;
    struct pretend_arrival arrival;
    uint32_t n_tokens;
    bool has_first;
};

static uint32_t between(struct random *random, uint32_t low, uint32_t high)
{
    return low + (uint32_t)random_below(random, high - low + 1);
}

/* A coin for each tick of 100 us: a Poisson process that needs no logarithm. */
static uint64_t next_arrival_us(struct random *random, uint64_t after_us, uint32_t rate_milli)
{
    const uint64_t tick_us = 100, ticks_in_1000_s = 10000000;
    do
        after_us += tick_us;
    while (random_below(random, ticks_in_1000_s) >= rate_milli);
    return after_us;
}

static void make_trace(struct trace_request *trace, const struct arguments *arguments,
                       enum trace_kind kind)
{
    struct random random;
    uint64_t at_us = 0;
    random_init(&random, arguments->seed);
    for (uint32_t i = 0; i < arguments->requests; i++) {
        bool is_long = kind == TRACE_LONG_PROMPTS && random_below(&random, 10) == 0;
        if (kind != TRACE_BURSTS)
            at_us = next_arrival_us(&random, at_us, arguments->rate_milli);
        else if (i % arguments->burst == 0)
            at_us = (uint64_t)i * 1000000000 / arguments->rate_milli;
        trace[i] = (struct trace_request){
            .arrives_us = at_us,
            .arrival = {.weight = 1,
                        .prompt_tokens = is_long ? between(&random, 2048, 4096)
                                                 : between(&random, 32, 512),
                        .max_new_tokens = arguments->max_new,
                        .generates = between(&random, 16, arguments->max_new / 2 + 16),
                        .group = PRETEND_NO_GROUP}};
    }
}

/* ---- a run ---- */

struct samples {
    uint32_t n, max;
    uint32_t *us;
};

static void *array(size_t n, size_t bytes)
{
    void *memory = calloc(n, bytes);
    assert(memory);
    return memory;
}

static void add_sample(struct samples *samples, uint64_t us)
{
    assert(samples->n < samples->max && us <= UINT32_MAX);
    samples->us[samples->n++] = (uint32_t)us;
}

static int compare(const void *a, const void *b)
{
    uint32_t first = *(const uint32_t *)a, second = *(const uint32_t *)b;
    return (first > second) - (first < second);
}

static double percentile_ms(struct samples *samples, uint32_t percent)
{
    if (samples->n == 0)
        return 0;
    qsort(samples->us, samples->n, sizeof *samples->us, compare);
    return samples->us[(uint64_t)(samples->n - 1) * percent / 100] / 1000.0;
}

struct run {
    struct pretend_engine engine;
    const struct arguments *arguments;
    struct trace_request *trace;
    uint32_t *index_of; /* [requests_max] by schedule_id */
    uint32_t n_arrived, n_ended, n_good, n_steps;
    uint64_t now_us, n_tokens;
    struct samples ttft, itl;
};

static void take_arrivals(struct run *run)
{
    while (run->n_arrived < run->arguments->requests &&
           run->trace[run->n_arrived].arrives_us <= run->now_us) {
        const struct trace_request *request = &run->trace[run->n_arrived];
        schedule_id id;
        enum status status = pretend_add(&run->engine, &request->arrival,
                                         request->arrives_us / 1000, &id);
        if (status != STATUS_OK) {
            fprintf(stderr, "trace_sim: a request is refused: %s\n", status_text(status));
            exit(1);
        }
        run->index_of[id] = run->n_arrived++;
    }
}

static uint64_t cost_us(const struct arguments *arguments, const struct pretend_outcome *outcome)
{
    return arguments->fixed_us + (uint64_t)outcome->n_prompt_tokens * arguments->prompt_us +
           (uint64_t)outcome->n_decodes * arguments->decode_us +
           outcome->n_past * arguments->past_ns / 1000;
}

static void on_token(struct run *run, struct trace_request *request)
{
    if (request->has_first)
        add_sample(&run->itl, run->now_us - request->last_us);
    else
        add_sample(&run->ttft, run->now_us - request->arrives_us);
    if (!request->has_first)
        request->first_us = run->now_us;
    request->has_first = true;
    request->last_us = run->now_us;
    request->n_tokens++;
    run->n_tokens++;
}

static void on_end(struct run *run, const struct trace_request *request)
{
    uint64_t ttft_us = request->first_us - request->arrives_us;
    uint64_t others_us = request->last_us - request->first_us;
    uint64_t good_us = (uint64_t)run->arguments->good_itl_ms * 1000 * (request->n_tokens - 1);
    assert(request->n_tokens == request->arrival.generates);
    run->n_ended++;
    run->n_good += ttft_us <= (uint64_t)run->arguments->good_ttft_ms * 1000 && others_us <= good_us;
}

static void run_trace(struct run *run)
{
    const struct pretend_outcome *outcome = &run->engine.outcome;
    while (run->n_ended < run->arguments->requests) {
        take_arrivals(run);
        if (!pretend_step(&run->engine)) {
            assert(run->n_arrived < run->arguments->requests);
            run->now_us = run->trace[run->n_arrived].arrives_us;
            continue;
        }
        run->n_steps++;
        run->now_us += cost_us(run->arguments, outcome);
        for (uint32_t i = 0; i < outcome->n_drew; i++)
            on_token(run, &run->trace[run->index_of[outcome->drew[i]]]);
        for (uint32_t i = 0; i < outcome->n_ended; i++)
            on_end(run, &run->trace[run->index_of[outcome->ended[i]]]);
    }
}

static void print_row(struct run *run, enum trace_kind kind)
{
    struct schedule_counts counts;
    double seconds = (double)run->now_us / 1e6;
    schedule_count(run->engine.schedule, &counts);
    printf("%-13s%-16s%8.0f%8.0f%8.1f%8.1f%8.0f%8.2f%6.0f%8" PRIu64 "%9" PRIu64 "\n",
           TRACE_NAMES[kind], schedule_policy_name(run->engine.options.policy),
           percentile_ms(&run->ttft, 50), percentile_ms(&run->ttft, 99),
           percentile_ms(&run->itl, 50), percentile_ms(&run->itl, 99),
           (double)run->n_tokens / seconds, run->n_good / seconds,
           100.0 * run->n_good / run->n_ended, counts.pauses, counts.tokens_again);
}

static void simulate(const struct arguments *arguments, enum trace_kind kind,
                     enum schedule_policy policy)
{
    const struct schedule_options options = {.policy = policy,
                                             .n_blocks = arguments->blocks,
                                             .block_tokens = arguments->block_tokens,
                                             .batch_tokens = arguments->batch_tokens,
                                             .chunk_tokens = arguments->chunk_tokens,
                                             .sequences_max = arguments->sequences,
                                             .waiting_max = arguments->requests,
                                             .headroom_blocks = arguments->headroom_blocks,
                                             .aging_ms = 1000,
                                             .tenant_share_percent = 100};
    struct run run = {.arguments = arguments};
    pretend_init(&run.engine, &options);
    run.trace = array(arguments->requests, sizeof *run.trace);
    run.index_of = array(run.engine.requests_max, sizeof *run.index_of);
    run.ttft.max = arguments->requests;
    run.itl.max = arguments->requests * arguments->max_new;
    run.ttft.us = array(run.ttft.max, sizeof *run.ttft.us);
    run.itl.us = array(run.itl.max, sizeof *run.itl.us);
    make_trace(run.trace, arguments, kind);
    run_trace(&run);
    print_row(&run, kind);
    pretend_finish(&run.engine);
    free(run.trace);
    free(run.index_of);
    free(run.ttft.us);
    free(run.itl.us);
}

int main(int argc, char **argv)
{
    struct arguments arguments = {
#define X(name, value, help) .name = value,
        ARGUMENTS(X)
#undef X
    };
    for (int i = 1; i < argc; i++)
        if (!take_argument(&arguments, argv[i])) {
            printf("trace_sim [--name=value ...], whole numbers over 0:\n");
            print_help();
            return strcmp(argv[i], "--help") == 0 ? 0 : 2;
        }
    printf("                             ttft ms ------  itl ms -------  tokens    good  good      "
           "    computed\n"
           "trace        policy               p50     p99     p50     p99     a s     a s     %%  "
           "pauses    again\n");
    for (int kind = 0; kind < TRACE_KINDS; kind++)
        for (int policy = SCHEDULE_NO_EVICT; policy <= SCHEDULE_STATIC_BATCH; policy++)
            simulate(&arguments, (enum trace_kind)kind, (enum schedule_policy)policy);
    return 0;
}
