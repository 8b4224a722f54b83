/* every feature of attention alone, every pair and random triples of them: what is refused is refused by
 * its sentence, all else is near float64, and the same bits again, in threads, alone and on every
 * instruction set. KVFERRY_CASE=n runs one case, KVFERRY_CPU=name one path. */
#include "base/thread_pool.h"
#include "kernels/reference/attention.h"
#include "tests/kernels/cases/report.h"
#include "tests/kernels/support/attention_list.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    WORKERS_MAX = 8,
    POOL_THREADS = 3,
    REFERENCE = 0,
    SELDOM_REPEATS = 8, /* of so many cases one is repeated: see repeats_all */
};

struct table {
    struct case_report report;
    atomic_uint next;
    uint32_t end;
    bool is_short; /* the short table */
};

/* A guard page or an assertion ends the process: say where. */
static _Thread_local uint32_t current_case;
static const int fatal_signals[] = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE};
static struct sigaction former_actions[sizeof fatal_signals / sizeof fatal_signals[0]];

static void say_case(int number)
{
    char text[64];
    int n = snprintf(text, sizeof text, "signal %d in KVFERRY_CASE=%u\n", number, current_case);
    if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0)
        return;
    for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0]; i++)
        if (fatal_signals[i] == number)
            sigaction(number, &former_actions[i], NULL); /* the instruction comes again */
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = say_case};
    for (size_t i = 0; i < sizeof fatal_signals / sizeof fatal_signals[0]; i++)
        sigaction(fatal_signals[i], &action, &former_actions[i]);
}

/* The features asked for are those the operator sees; A14 and A16 are windows of their own. */
static void check_use(struct table *table, const struct case_data *data)
{
    const struct attention_case *c = data->test_case;
    uint64_t seen = 0, always = ATTENTION_FEATURES_OF_CALLS;
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        seen |= attention_features_used(&data->configs[layer]);
    if (c->is_cyclic || c->sink_tokens != 0)
        always |= ATTENTION_FEATURE(13);
    for (uint32_t feature = 1; feature <= ATTENTION_FEATURES; feature++)
        if (case_has(c, feature) && !(always >> feature & 1) && !(seen >> feature & 1))
            case_report_failure(&table->report, c, "%s is not turned on by features.c",
                                attention_feature(feature)->id);
}

/* Some pair of the case by both numbers and its reason. */
static bool names_an_exclusion(const struct attention_case *c, const char *text)
{
    const struct attention_exclusion *exclusions;
    uint32_t n = attention_exclusions(&exclusions);
    for (uint32_t i = 0; i < n; i++) {
        char start[64], middle[32];
        snprintf(start, sizeof start, "%s ", attention_feature(exclusions[i].first)->id);
        snprintf(middle, sizeof middle, " excludes %s ",
                 attention_feature(exclusions[i].second)->id);
        if (case_has(c, exclusions[i].first) && case_has(c, exclusions[i].second) &&
            strncmp(text, start, strlen(start)) == 0 && strstr(text, middle) &&
            strstr(text, exclusions[i].reason))
            return true;
    }
    return false;
}

/* A layer of the case that uses what the back end's column says it does not compute; n_layers: none. */
static uint32_t layer_not_computed(const struct case_data *data,
                                   const struct attention_backend *backend)
{
    uint32_t layer = 0;
    while (layer < data->test_case->n_layers &&
           (attention_features_used(&data->configs[layer]) & ~backend->features) == 0)
        layer++;
    return layer;
}

/* Some number that the back end does not compute. */
static bool names_a_feature(const struct attention_backend *backend, const char *text)
{
    for (uint32_t number = 1; number <= ATTENTION_FEATURES; number++) {
        char start[32];
        snprintf(start, sizeof start, "%s ", attention_feature(number)->id);
        if (!(backend->features & ATTENTION_FEATURE(number)) &&
            strncmp(text, start, strlen(start)) == 0)
            return true;
    }
    return false;
}

/* False: the case is to be computed. */
static bool is_refused(struct table *table, const struct case_data *data, uint32_t path)
{
    const struct attention_case *c = data->test_case;
    struct case_report *report = &table->report;
    const struct attention_backend *backend = report->paths[path].attention;
    struct attention *attention;
    struct error error = {""};
    bool is_excluded = case_exclusion(c) != NULL;
    uint32_t layer = is_excluded ? 0 : layer_not_computed(data, backend);
    if (layer == c->n_layers)
        return false;
    enum status expected = is_excluded ? STATUS_INVALID_ARGUMENT : STATUS_UNSUPPORTED;
    enum status status = backend->create(&data->configs[layer], NULL, &attention, &error);
    if (status == STATUS_OK)
        backend->destroy(attention);
    if (status != expected ||
        !(is_excluded ? names_an_exclusion(c, error.text) : names_a_feature(backend, error.text)))
        case_report_failure(report, c, "%s: status %d, expected %d: %s", report->paths[path].name,
                            (int)status, (int)expected, error.text);
    case_report_refused(report, path);
    return true;
}

/* What is run again, and must give the bits of the first run. */
struct repeat {
    struct table *table;
    const struct case_data *data;
    const char *path;
    const struct case_result *first;
};

static void check_repeat(const struct repeat *repeat, const struct case_options *options,
                         const char *what)
{
    const struct case_data *data = repeat->data;
    struct case_result again;
    case_run(data, options, &again);
    bool is_same = options->only != CASE_ALL || case_same_caches(&again, repeat->first);
    for (uint32_t s = 0; s < data->test_case->n_sequences; s++)
        if (options->only == CASE_ALL || options->only == s)
            is_same = is_same && case_same_bits(data, s, &again, repeat->first);
    if (again.problem[0])
        case_report_failure(&repeat->table->report, data->test_case, "%s, %s: %s", repeat->path,
                            what, again.problem);
    else if (!is_same)
        case_report_failure(&repeat->table->report, data->test_case, "%s: %s changes bits",
                            repeat->path, what);
    case_result_finish(&again);
}

static void check_repeats(const struct repeat *repeat, const struct attention_backend *backend,
                          struct thread_pool *pool)
{
    const struct attention_case *c = repeat->data->test_case;
    struct case_options options = {.backend = backend, .only = CASE_ALL};
    check_repeat(repeat, &options, "a second time");
    options.updates_prompts = true;
    check_repeat(repeat, &options, "kv_update of the prompts");
    options.updates_prompts = false;
    options.pool = pool;
    check_repeat(repeat, &options, "a thread pool");
    options.pool = NULL;
    for (uint32_t s = 0; c->n_sequences > 1 && !c->reuses_prefix && s < c->n_sequences; s++) {
        options.only = s;
        check_repeat(repeat, &options, "a sequence alone");
    }
}

/* What the paths of a case are compared with. */
struct oracle {
    struct case_result expected; /* what the case asks for */
    struct case_result exact;    /* without quantising; output NULL: the case does not */
    struct case_result common;   /* the first result of those that give the same bits */
};

/* The sets of cpu/ promise each other's bits, but for one that rounds products. */
static bool shares_bits(const struct attention_case *c, const struct case_path *path)
{
    return strcmp(path->attention->name, "cpu") == 0 && !rounds_products(path->name) &&
           (c->math == MATH_COMPUTE || c->math != attention_own_math(path->name));
}

/* The scalar path is slow; sets with a math of their own differ from another in nothing else. */
static bool repeats_all(const struct attention_case *c, const char *name)
{
    const enum attention_math own = attention_own_math(name);
    return strcmp(name, "scalar") != 0 && (own == MATH_COMPUTE || own == c->math);
}

static void check_path(struct table *table, const struct case_data *data, uint32_t path,
                       struct thread_pool *pool, struct oracle *oracle)
{
    const struct case_result *expected = &oracle->expected;
    struct case_result *common = &oracle->common;
    struct case_path *of_report = &table->report.paths[path];
    const struct attention_case *c = data->test_case;
    const struct attention_backend *backend = of_report->attention;
    struct case_result got;
    case_run(data, &(struct case_options){.backend = backend, .only = CASE_ALL}, &got);
    if (got.problem[0]) {
        case_report_failure(&table->report, c, "%s: %s", of_report->name, got.problem);
        case_result_finish(&got);
        return;
    }
    const bool adds_fp16 = attention_own_math(of_report->name) == MATH_FP16;
    struct case_error bound = case_bound(data, expected, adds_fp16);
    struct case_error error = case_error(data, &got, expected);
    case_report_add(&table->report, path, c, &error, &bound);
    if (oracle->exact.output) {
        struct case_cost cost = case_cost_of_math(data, &got, &oracle->exact);
        case_report_cost(&table->report, path, c, &cost);
    }
    struct repeat repeat = {table, data, of_report->name, &got};
    if (repeats_all(c, of_report->name) || c->number % SELDOM_REPEATS == 0)
        check_repeats(&repeat, backend, pool);
    if (!shares_bits(c, of_report)) {
        case_result_finish(&got);
        return;
    }
    for (uint32_t s = 0; common->output && s < c->n_sequences; s++)
        if (!case_same_bits(data, s, &got, common))
            case_report_failure(&table->report, c, "%s: not the bits of an earlier path",
                                of_report->name);
    if (common->output)
        case_result_finish(&got);
    else
        *common = got;
}

static bool is_to_run(const struct case_report *report, uint32_t path)
{
    const char *forced = getenv("KVFERRY_CPU");
    if (path == REFERENCE) /* the others' oracle; judged when it is asked for */
        return forced && strcmp(forced, "reference") == 0;
    return report->paths[path].attention && report->paths[path].same_as == path;
}

static void ask_oracle(const struct case_data *data, struct oracle *oracle)
{
    static const struct case_options options = {
        .backend = &reference_attention, .only = CASE_ALL, .is_oracle = true};
    case_run(data, &options, &oracle->expected);
    if (data->test_case->math == MATH_COMPUTE || data->test_case->output_scale != 0)
        return;
    struct case_data exact = *data;
    for (uint32_t layer = 0; layer < data->test_case->n_layers; layer++)
        exact.configs[layer].math = MATH_COMPUTE;
    case_run(&exact, &options, &oracle->exact);
}

/* Hosts also take heads that a device does not. */
static struct attention_case case_of_host(uint32_t number)
{
    struct attention_case c = case_make(number);
    if (!case_has(&c, 28) || number % 2 == 0 || c.head_dim > HEAD_DIM_MAX / 2)
        return c;
    c.head_dim += HEAD_DIM_MAX / 2;
    if (c.rope.head_dim != 0)
        c.rope.head_dim = c.head_dim;
    return c;
}

static void check_case(struct table *table, uint32_t number, struct thread_pool *pool)
{
    const struct attention_case c = case_of_host(number);
    struct case_data data;
    struct oracle oracle = {0};
    struct error error = {""};
    current_case = number;
    if (!case_data_init(&c, &data, &error)) {
        case_report_failure(&table->report, &c, "rope: %s", error.text);
        return;
    }
    check_use(table, &data);
    for (uint32_t path = 0; path < table->report.n_paths; path++) {
        if (!is_to_run(&table->report, path) || is_refused(table, &data, path))
            continue;
        if (!oracle.expected.output)
            ask_oracle(&data, &oracle);
        if (oracle.expected.problem[0]) {
            case_report_failure(&table->report, &c, "reference: %s", oracle.expected.problem);
            break;
        }
        check_path(table, &data, path, pool, &oracle);
    }
    case_result_finish(&oracle.common);
    case_result_finish(&oracle.exact);
    case_result_finish(&oracle.expected);
    case_data_finish(&data);
}

/* Threads meet in the same way in every case: under ThreadSanitizer some of them will do. Other sanitizers look for other things than
 * results: the short table has all the code. */
#if defined KVFERRY_SANITIZED_THREAD
#define CASE_STEP 8u
#define IS_SHORT  false
#elif defined KVFERRY_SANITIZED
#define CASE_STEP 1u
#define IS_SHORT  true
#else
#define CASE_STEP 1u
#define IS_SHORT  false
#endif

static void *run_worker(void *arg)
{
    struct table *table = arg;
    struct thread_pool *pool;
    if (thread_pool_create(POOL_THREADS, false, &pool) != STATUS_OK)
        abort();
    for (;;) {
        uint32_t number = atomic_fetch_add(&table->next, CASE_STEP);
        if (number >= table->end)
            break;
        if (!table->is_short || case_is_in_short_table(number))
            check_case(table, number, pool);
    }
    thread_pool_destroy(pool);
    return NULL;
}

static void run_table(struct table *table)
{
    pthread_t workers[WORKERS_MAX];
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    n = n < 1 ? 1 : n > WORKERS_MAX ? WORKERS_MAX : n;
    for (long i = 0; i < n; i++)
        cr_assert_eq(pthread_create(&workers[i], NULL, run_worker, table), 0);
    for (long i = 0; i < n; i++)
        cr_assert_eq(pthread_join(workers[i], NULL), 0);
}

Test(cases, every_feature_every_pair_and_random_triples)
{
    static struct table table;
    const char *one = getenv("KVFERRY_CASE");
    catch_signals();
    case_report_init(&table.report);
    table.end = case_count();
    table.is_short = IS_SHORT && !one;
    if (one) {
        atomic_store(&table.next, (unsigned)strtoul(one, NULL, 10));
        table.end = atomic_load(&table.next) + 1;
        struct attention_case c = case_of_host(table.end - 1);
        case_print(&c);
    }
    run_table(&table);
    case_report_print(&table.report);
    cr_assert_eq(table.report.n_failed, 0, "%u cases failed", table.report.n_failed);
}
