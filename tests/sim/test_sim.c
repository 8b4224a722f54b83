/*
 * test_sim - whole clusters in one process, one for each seed.
 *
 *     test_sim FIRST COUNT                  runs seeds FIRST .. FIRST + COUNT - 1
 *     test_sim FIRST COUNT churn            the same with 200 workers that come and go
 *     test_sim FIRST COUNT pauses           the same with pools that are too small for all generations
 *     test_sim FIRST COUNT slow             the same on machines that take longer for a prompt than it may take
 *     test_sim FIRST COUNT crowd            the same with one worker that has no room for what comes
 *     test_sim FIRST COUNT again            the same with names that are used again when they are cancelled
 *     KVFERRY_SIM_SEED=n test_sim           replays one seed and tells what happens
 *
 * What must hold is in cluster.c, router_node.c and worker_node.c; a failed assertion names its seed
 * too. Over many seeds it also demands that the interesting things really happened.
 */
#include "base/log/log.h"
#include "tests/sim/cluster.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char running[64]; /* for the signal handler */

static void on_abort(int signal_number)
{
    (void)signal_number;
    ssize_t n = write(STDERR_FILENO, running, strlen(running));
    (void)n;
}

typedef void (*draw)(struct plan *plan, uint64_t seed);

static bool run_seed(struct oracle *oracle, uint64_t seed, draw draw_plan, bool is_verbose,
                     struct totals *totals)
{
    static struct plan plan; /* too large for a stack */
    snprintf(running, sizeof running, "aborted in seed %llu\n", (unsigned long long)seed);
    draw_plan(&plan, seed);
    return cluster_run(&plan, oracle, is_verbose, totals);
}

static void print_totals(const struct totals *totals)
{
    printf("runs %llu requests %llu ok %llu failed %llu\n", (unsigned long long)totals->runs,
           (unsigned long long)totals->requests, (unsigned long long)totals->ok,
           (unsigned long long)totals->failed);
    printf("hand-overs committed %llu failed %llu fell back %llu; tokens recomputed %llu, "
           "from caches %llu; KV bytes %llu\n",
           (unsigned long long)totals->handovers_committed,
           (unsigned long long)totals->handovers_failed, (unsigned long long)totals->fell_back,
           (unsigned long long)totals->recomputed, (unsigned long long)totals->prefix_cached,
           (unsigned long long)totals->kv_bytes);
    printf("pauses %llu, tokens computed or fetched again %llu\n",
           (unsigned long long)totals->pauses, (unsigned long long)totals->tokens_again);
    printf("tier: blocks stored %llu, no room %llu, tokens restored %llu, orders late %llu, ended "
           "by a "
           "missing block %llu\n",
           (unsigned long long)totals->tier_stored, (unsigned long long)totals->tier_dropped,
           (unsigned long long)totals->tier_restored, (unsigned long long)totals->tier_late,
           (unsigned long long)totals->tier_missed);
    printf("watchers: spans stored %llu, with tokens %llu, removed %llu; snapshots %llu\n",
           (unsigned long long)totals->watch_stored, (unsigned long long)totals->watch_told,
           (unsigned long long)totals->watch_removed, (unsigned long long)totals->watch_snapshots);
    printf(
        "with sinks: replies that dropped spans %llu, prompts that crossed without %llu, windows "
        "of their own %llu\n",
        (unsigned long long)totals->replies_dropping, (unsigned long long)totals->crossed_short,
        (unsigned long long)totals->narrow);
    printf("texts of an encoder %llu, crossed whole %llu, of 8 bits %llu, of BART %llu, found "
           "whole %llu; last "
           "tokens forced %llu\n",
           (unsigned long long)totals->texts, (unsigned long long)totals->texts_crossed,
           (unsigned long long)totals->texts_narrow, (unsigned long long)totals->texts_of_bart,
           (unsigned long long)totals->texts_found, (unsigned long long)totals->forced_last);
    printf(
        "prompts of latents crossed %llu, prompts scored %llu, replies with adapters %llu; tokens "
        "guessed %llu, kept %llu\n",
        (unsigned long long)totals->latents_crossed, (unsigned long long)totals->scored,
        (unsigned long long)totals->adapted, (unsigned long long)totals->drafted,
        (unsigned long long)totals->accepted);
    printf("beam searches %llu, of a hand-over %llu\n", (unsigned long long)totals->searches,
           (unsigned long long)totals->searches_crossed);
    printf("retried %llu, waited %llu, commits refused %llu, kills %llu, steps with quarantine "
           "%llu, late "
           "pieces %llu\n",
           (unsigned long long)totals->retried, (unsigned long long)totals->waited,
           (unsigned long long)totals->commits_refused, (unsigned long long)totals->kills,
           (unsigned long long)totals->quarantines, (unsigned long long)totals->late_pieces);
    printf("joined %llu, when there was room %llu, left %llu, of them with requests %llu\n",
           (unsigned long long)totals->joins, (unsigned long long)totals->late_joins,
           (unsigned long long)totals->leaves, (unsigned long long)totals->busy_leaves);
    printf("told during steps %llu, committed during steps %llu\n",
           (unsigned long long)totals->told_in_steps,
           (unsigned long long)totals->committed_in_steps);
    for (uint32_t i = 0; i < sizeof totals->by_status / sizeof totals->by_status[0]; i++)
        if (totals->by_status[i] > 0)
            printf("  %-22s %llu\n", status_name((enum status)i),
                   (unsigned long long)totals->by_status[i]);
}

/* A simulation in which nothing happens proves nothing. About half of what many seeds show, so that a few
 * seeds demand the frequent events and only many the rare ones. */
struct event {
    const char *name; /* NULL: the last */
    size_t offset;    /* of the uint64_t in struct totals */
    uint64_t least_in_1000_seeds;
};

#define EVENT(member, least)                                                                       \
    {                                                                                              \
#member, offsetof(struct totals, member), least                                            \
    }
static const struct event EVENTS[] = {
    EVENT(ok, 3500),
    EVENT(failed, 600),
    EVENT(handovers_committed, 2200),
    EVENT(handovers_failed, 600),
    EVENT(fell_back, 400),
    EVENT(retried, 120),
    EVENT(waited, 60),
    EVENT(kills, 200),
    EVENT(quarantines, 3500),
    EVENT(prefix_cached, 40000),
    EVENT(watch_told, 1000),
    EVENT(watch_removed, 1000),
    EVENT(watch_snapshots, 1000),
    EVENT(recomputed, 25000),
    EVENT(late_pieces, 150),
    EVENT(commits_refused, 1),
    EVENT(scored, 300),
    EVENT(adapted, 200),
    EVENT(latents_crossed, 280),
    EVENT(accepted, 250),
    EVENT(texts_crossed, 250),
    EVENT(texts_narrow, 120),
    EVENT(texts_of_bart, 120),
    EVENT(texts_found, 50),
    EVENT(forced_last, 180),
    EVENT(searches, 200),
    EVENT(searches_crossed, 150),
    {NULL, 0, 0},
};
static const struct event CHURN_EVENTS[] = {
    EVENT(ok, 20000),     EVENT(failed, 1000),      EVENT(retried, 500),
    EVENT(kills, 5000),   EVENT(joins, 100000),     EVENT(late_joins, 10000),
    EVENT(leaves, 50000), EVENT(busy_leaves, 2000), EVENT(prefix_cached, 100000),
    {NULL, 0, 0},
};
static const struct event PAUSES_EVENTS[] = {
    EVENT(ok, 3000),
    EVENT(pauses, 1000),
    EVENT(texts_crossed, 300),
    EVENT(tokens_again, 10000),
    EVENT(handovers_committed, 1000),
    {NULL, 0, 0},
};
static const struct event TIERS_EVENTS[] = {
    EVENT(ok, 5000),
    EVENT(tier_stored, 20000),
    EVENT(tier_dropped, 1000),
    EVENT(tier_restored, 20000),
    EVENT(tier_missed, 200),
    EVENT(tier_late, 50),
    EVENT(kills, 50),
    EVENT(texts_found, 300),
    {NULL, 0, 0},
};
static const struct event SLOW_EVENTS[] = {
    EVENT(ok, 3000),
    EVENT(handovers_committed, 2500),
    EVENT(told_in_steps, 9000),
    EVENT(committed_in_steps, 130),
    {NULL, 0, 0},
};
static const struct event CROWD_EVENTS[] = {
    EVENT(ok, 200000),
    EVENT(handovers_committed, 200000),
    {NULL, 0, 0},
};
static const struct event AGAIN_EVENTS[] = {
    EVENT(ok, 8000),
    EVENT(cancelled, 3000),
    EVENT(handovers_committed, 8000),
    {NULL, 0, 0},
};
static const struct event SINKS_EVENTS[] = {
    EVENT(ok, 3000),    EVENT(replies_dropping, 1500), EVENT(crossed_short, 300),
    EVENT(narrow, 500), EVENT(handovers_failed, 300),  EVENT(watch_told, 1000),
    {NULL, 0, 0},
};
#undef EVENT

struct kind {
    const char *name;
    draw draw;
    const struct event *events;
};
static const struct kind KINDS[] = {{"", plan_draw, EVENTS},
                                    {"churn", plan_draw_churn, CHURN_EVENTS},
                                    {"pauses", plan_draw_pauses, PAUSES_EVENTS},
                                    {"tiers", plan_draw_tiers, TIERS_EVENTS},
                                    {"slow", plan_draw_slow, SLOW_EVENTS},
                                    {"crowd", plan_draw_crowd, CROWD_EVENTS},
                                    {"again", plan_draw_again, AGAIN_EVENTS},
                                    {"sinks", plan_draw_sinks, SINKS_EVENTS}};

/* NULL: no such. */
static const struct kind *find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (strcmp(KINDS[i].name, name) == 0)
            return &KINDS[i];
    return NULL;
}

static bool is_eventful(const struct event *events, const struct totals *totals)
{
    bool is_enough = true;
    for (const struct event *event = events; event->name; event++) {
        uint64_t n;
        uint64_t least = totals->runs * event->least_in_1000_seeds / 1000;
        memcpy(&n, (const char *)totals + event->offset, sizeof n);
        if (n >= least)
            continue;
        printf("too little happened: %s %llu, expected at least %llu\n", event->name,
               (unsigned long long)n, (unsigned long long)least);
        is_enough = false;
    }
    return is_enough;
}

int main(int argc, char **argv)
{
    const struct kind *kind = find_kind(argc > 3 ? argv[3] : "");
    if (!kind) {
        fprintf(stderr, "test_sim: no kind %s\n", argv[3]);
        return EXIT_FAILURE;
    }
    const char *one = getenv("KVFERRY_SIM_SEED");
    uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000;
    if (one && *one) {
        first = strtoull(one, NULL, 10);
        count = 1;
    }
    log_init("sim", one && *one ? LOG_DEBUG : LOG_ERROR, LOG_FORMAT_HUMAN);
    signal(SIGABRT, on_abort);

    struct oracle *oracle = oracle_create();
    struct totals totals = {0};
    uint64_t n_failed = 0;
    for (uint64_t seed = first; seed < first + count; seed++)
        if (!run_seed(oracle, seed, kind->draw, count == 1, &totals))
            n_failed++;
    oracle_destroy(oracle);
    print_totals(&totals);
    if (count > 1 && !is_eventful(kind->events, &totals))
        n_failed++;
    printf("%llu failed\n", (unsigned long long)n_failed);
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
