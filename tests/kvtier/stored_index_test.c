/* stored_index: finds what was added, and knows what was used longest ago. */
#include "base/random.h"
#include "kvtier/stored_index.h"

#include <criterion/criterion.h>

static struct stored_block block(uint64_t number, uint64_t parent, uint64_t origin)
{
    return (struct stored_block){
        .key = {.hash = {number, 7 * number}}, .parent = {parent, 7 * parent}, .origin = origin};
}

static struct stored_index *new_index(uint32_t entries_max)
{
    struct stored_index *index = NULL;
    cr_assert_eq(stored_index_create(entries_max, &index), STATUS_OK);
    return index;
}

Test(stored_index, a_key_is_a_hash_and_a_group)
{
    struct stored_index *index = new_index(4);
    struct stored_block one = block(5, 0, 0), other = one;
    other.key.group = 1;
    const uint32_t slot = stored_index_add(index, &one);
    cr_assert_eq(stored_index_find(index, &one.key), slot);
    cr_assert_eq(stored_index_find(index, &other.key), STORED_NONE);
    other.key = one.key;
    other.key.hash.hi++;
    cr_assert_eq(stored_index_find(index, &other.key), STORED_NONE);
    stored_index_destroy(index);
}

/* A model: numbers in the order of their use. */
enum { ENTRIES = 37, NUMBERS = 90, OPERATIONS = 100000 };

struct naive {
    uint64_t numbers[ENTRIES];
    uint32_t n;
};

static uint32_t naive_find(const struct naive *naive, uint64_t number)
{
    uint32_t i = 0;
    while (i < naive->n && naive->numbers[i] != number)
        i++;
    return i;
}

static void naive_remove(struct naive *naive, uint32_t at)
{
    naive->n--;
    for (uint32_t i = at; i < naive->n; i++)
        naive->numbers[i] = naive->numbers[i + 1];
}

static void compare_order(const struct stored_index *index, const struct naive *naive)
{
    uint32_t slot = stored_index_oldest(index);
    cr_assert_eq(stored_index_count(index), naive->n);
    for (uint32_t i = 0; i < naive->n; i++, slot = stored_index_next(index, slot))
        cr_assert_eq(stored_index_at(index, slot)->key.hash.lo, naive->numbers[i]);
    cr_assert_eq(slot, STORED_NONE);
}

Test(stored_index, a_hundred_thousand_random_operations_equal_those_of_a_list)
{
    struct stored_index *index = new_index(ENTRIES);
    struct naive naive = {.n = 0};
    struct random random;
    random_init(&random, 1);
    for (int i = 0; i < OPERATIONS; i++) {
        /* Few places for many hashes: runs of the table are long. */
        const uint64_t number = 1 + random_below(&random, NUMBERS) * 128;
        const struct stored_block wanted = block(number, 0, 0);
        const uint32_t slot = stored_index_find(index, &wanted.key);
        const uint32_t at = naive_find(&naive, number);
        cr_assert_eq(slot == STORED_NONE, at == naive.n);
        const uint64_t choice = random_below(&random, 4);
        if (slot == STORED_NONE && choice < 3) {
            if (stored_index_is_full(index)) {
                stored_index_remove(index, stored_index_oldest(index));
                naive_remove(&naive, 0);
            }
            stored_index_add(index, &wanted);
            naive.numbers[naive.n++] = number;
        } else if (slot != STORED_NONE && choice == 0) {
            stored_index_remove(index, slot);
            naive_remove(&naive, at);
        } else if (slot != STORED_NONE) {
            stored_index_use(index, slot);
            naive_remove(&naive, at);
            naive.numbers[naive.n++] = number;
        }
        if (i % 64 == 0)
            compare_order(index, &naive);
    }
    compare_order(index, &naive);
    stored_index_destroy(index);
}
