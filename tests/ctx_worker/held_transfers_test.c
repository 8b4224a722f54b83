/* held_transfers: a transfer is granted once, and only while it is held, on any thread. */
#include "ctx_worker/held_transfers.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>

enum { LIFE = 7, N_MAX = 3, BYTES = 4096 };

static struct held_commit commit_of(uint8_t name)
{
    return (struct held_commit){.id = {{name}}, .kv_bytes = BYTES, .incarnation = LIFE};
}

static uint64_t put(struct held_transfers *held, uint8_t name)
{
    const struct transfer_id id = {{name}};
    return held_transfers_put(held, &id, BYTES);
}

static enum status grant(struct held_transfers *held, struct held_commit commit, uint64_t *number)
{
    struct error error = {""};
    enum status status = held_transfers_grant(held, &commit, &error, number);
    cr_assert_eq(status == STATUS_OK, error.text[0] == '\0', "a refusal says why");
    return status;
}

Test(held_transfers, what_is_held_is_granted_once_and_by_its_number)
{
    struct held_transfers held = {0};
    uint64_t number = 0, granted, refused;
    cr_assert_eq(held_transfers_init(&held, LIFE, N_MAX), STATUS_OK);
    uint64_t first = put(&held, 1), second = put(&held, 2);
    cr_assert_neq(first, second);
    cr_assert_eq(grant(&held, commit_of(2), &number), STATUS_OK);
    cr_assert_eq(number, second);
    cr_assert_eq(grant(&held, commit_of(2), &number), STATUS_NOT_HELD);
    held_transfers_drop(&held, second);
    held_transfers_drop(&held, first);
    cr_assert_eq(grant(&held, commit_of(1), &number), STATUS_NOT_HELD);
    held_transfers_count(&held, &granted, &refused);
    cr_assert_eq(granted, 1);
    cr_assert_eq(refused, 2);
    held_transfers_finish(&held);
}

Test(held_transfers, what_has_ended_is_granted_to_nobody_and_is_no_lie)
{
    struct held_transfers held = {0};
    uint64_t number;
    cr_assert_eq(held_transfers_init(&held, LIFE, 1), STATUS_OK);
    uint64_t first = put(&held, 1);
    held_transfers_end(&held, first);
    cr_assert_eq(grant(&held, commit_of(1), &number), STATUS_CANCELLED);
    held_transfers_drop(&held, first);
    cr_assert_eq(grant(&held, commit_of(1), &number), STATUS_NOT_HELD);
    put(&held, 1);
    cr_assert_eq(grant(&held, commit_of(1), &number), STATUS_OK, "it is used again");
    held_transfers_finish(&held);
}

Test(held_transfers, neither_another_life_nor_other_bytes_nor_another_id_are_granted)
{
    struct held_transfers held = {0};
    uint64_t number;
    cr_assert_eq(held_transfers_init(&held, LIFE, N_MAX), STATUS_OK);
    put(&held, 1);
    struct held_commit stale = commit_of(1), more = commit_of(1), none = commit_of(0);
    stale.incarnation++;
    more.kv_bytes++;
    cr_assert_eq(grant(&held, stale, &number), STATUS_STALE_PEER);
    cr_assert_eq(grant(&held, more, &number), STATUS_NOT_HELD);
    cr_assert_eq(grant(&held, none, &number), STATUS_NOT_HELD, "a free place is nobody's");
    cr_assert_eq(grant(&held, commit_of(1), &number), STATUS_OK, "and nothing is lost by asking");
    held_transfers_finish(&held);
}

Test(held_transfers, places_are_used_again_and_numbers_are_not)
{
    struct held_transfers held = {0};
    uint64_t number, last = 0;
    cr_assert_eq(held_transfers_init(&held, LIFE, 1), STATUS_OK);
    for (uint8_t i = 1; i < 100; i++) {
        uint64_t next = put(&held, i);
        cr_assert_gt(next, last);
        last = next;
        if (i % 2 == 0)
            cr_assert_eq(grant(&held, commit_of(i), &number), STATUS_OK);
        held_transfers_drop(&held, next);
    }
    held_transfers_finish(&held);
    held_transfers_finish(&(struct held_transfers){0});
}

struct asker {
    struct held_transfers *held;
    atomic_bool *is_over;
    uint64_t n_granted;
};

static void *ask(void *arg)
{
    struct asker *asker = arg;
    const struct held_commit commit = commit_of(1);
    struct error error;
    uint64_t number;
    while (!atomic_load(asker->is_over))
        asker->n_granted += held_transfers_grant(asker->held, &commit, &error, &number) ==
                            STATUS_OK;
    return NULL;
}

Test(held_transfers, two_threads_that_ask_at_once_get_one_grant_for_each_seal)
{
    struct held_transfers held = {0};
    atomic_bool is_over = false;
    struct asker askers[2] = {{&held, &is_over, 0}, {&held, &is_over, 0}};
    pthread_t threads[2];
    uint64_t granted, refused, n_put = 0;
    cr_assert_eq(held_transfers_init(&held, LIFE, 1), STATUS_OK);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, ask, &askers[i]), 0);
    do {
        held_transfers_drop(&held, put(&held, 1));
        n_put++;
        held_transfers_count(&held, &granted, &refused);
        cr_assert_leq(granted, n_put);
    } while (granted < 3 && n_put < 1000000);
    atomic_store(&is_over, true);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(pthread_join(threads[i], NULL), 0);
    held_transfers_count(&held, &granted, &refused);
    cr_assert_eq(askers[0].n_granted + askers[1].n_granted, granted);
    cr_assert_leq(granted, n_put);
    held_transfers_finish(&held);
}
