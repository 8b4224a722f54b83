/* context_threads: bytes go round and meet; nobody waits for a rank that is gone. */
#include "kernels/context_threads.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

enum { RANKS = 4, ROUNDS = 200 };

struct rank {
    struct context_threads *threads;
    uint32_t rank;
    uint32_t rounds; /* then it leaves, and ends the group if it is not the last round */
    size_t bytes;
    uint64_t shifted[ROUNDS], gathered[ROUNDS][RANKS];
    enum status status;
};

static void *run(void *arg)
{
    struct rank *rank = arg;
    const struct context_group group = context_threads_group(rank->threads, rank->rank);
    for (uint64_t round = 0; round < rank->rounds && rank->status == STATUS_OK; round++) {
        const uint64_t own = round * RANKS + rank->rank;
        rank->status = group.shift(group.arg, &own, &rank->shifted[round], rank->bytes);
        if (rank->status == STATUS_OK)
            rank->status = group.gather(group.arg, &own, rank->gathered[round], rank->bytes);
    }
    if (rank->rounds < ROUNDS)
        context_threads_end(rank->threads, STATUS_CANCELLED);
    return NULL;
}

static void run_all(uint32_t rounds_of_last, size_t bytes_of_last, struct rank ranks[RANKS])
{
    pthread_t threads[RANKS];
    struct context_threads *carriers;
    cr_assert_eq(context_threads_create(RANKS, &carriers, NULL), STATUS_OK);
    for (uint32_t r = 0; r < RANKS; r++) {
        memset(&ranks[r], 0, sizeof ranks[r]);
        ranks[r].threads = carriers;
        ranks[r].rank = r;
        ranks[r].rounds = r + 1 < RANKS ? ROUNDS : rounds_of_last;
        ranks[r].bytes = r + 1 < RANKS ? sizeof(uint64_t) : bytes_of_last;
        cr_assert_eq(pthread_create(&threads[r], NULL, run, &ranks[r]), 0);
    }
    for (uint32_t r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    context_threads_destroy(carriers);
}

static struct rank ranks[RANKS];

Test(context_threads, bytes_go_to_the_next_rank_and_to_all)
{
    run_all(ROUNDS, sizeof(uint64_t), ranks);
    for (uint64_t r = 0; r < RANKS; r++) {
        cr_assert_eq(ranks[r].status, STATUS_OK);
        for (uint64_t round = 0; round < ROUNDS; round++) {
            cr_assert_eq(ranks[r].shifted[round], round * RANKS + (r + RANKS - 1) % RANKS);
            for (uint64_t from = 0; from < RANKS; from++)
                cr_assert_eq(ranks[r].gathered[round][from], round * RANKS + from);
        }
    }
}

Test(context_threads, a_rank_that_ends_the_group_keeps_nobody_waiting)
{
    run_all(7, sizeof(uint64_t), ranks);
    cr_assert_eq(ranks[RANKS - 1].status, STATUS_OK, "it had its seven rounds");
    for (uint32_t r = 0; r + 1 < RANKS; r++)
        cr_assert_eq(ranks[r].status, STATUS_CANCELLED);
}

Test(context_threads, unequal_bytes_are_refused_everywhere)
{
    run_all(ROUNDS, sizeof(uint32_t), ranks);
    for (uint32_t r = 0; r < RANKS; r++) {
        cr_assert_eq(ranks[r].status, STATUS_INVALID_ARGUMENT);
        cr_assert_eq(ranks[r].shifted[0], 0);
    }
}

Test(context_threads, no_ranks_are_refused)
{
    struct context_threads *carriers;
    struct error error = {""};
    cr_assert_eq(context_threads_create(0, &carriers, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "n_ranks is 0");
    context_threads_destroy(NULL);
}
