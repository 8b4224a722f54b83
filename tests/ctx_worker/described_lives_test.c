/* described_lives: an incarnation keeps its first address, however many others follow, and no entry is removed for a new one. */
#include "ctx_worker/described_lives.h"

#include <criterion/criterion.h>
#include <string.h>

static struct transport_address address_of(uint64_t incarnation, uint8_t place)
{
    return (struct transport_address){
        .worker = {1, 2, place}, .worker_bytes = 3, .incarnation = incarnation};
}

static enum status note(struct described_lives *lives, uint64_t incarnation, uint8_t place)
{
    struct transport_address address = address_of(incarnation, place);
    struct error error;
    return described_lives_note(lives, &address, &error);
}

Test(described_lives, a_life_has_one_address)
{
    struct described_lives *lives;
    cr_assert_eq(described_lives_create(&lives), STATUS_OK);
    cr_assert_eq(note(lives, 42, 1), STATUS_OK);
    cr_assert_eq(note(lives, 42, 1), STATUS_OK);
    cr_assert_eq(note(lives, 42, 2), STATUS_NOT_ALLOWED);
    cr_assert_eq(note(lives, 43, 2), STATUS_OK);

    struct transport_address other = address_of(42, 1);
    struct error error;
    other.pool_base = 4096;
    cr_assert_eq(described_lives_note(lives, &other, &error), STATUS_NOT_ALLOWED);
    other = address_of(42, 1);
    other.pool_key_bytes = 1;
    cr_assert_eq(described_lives_note(lives, &other, &error), STATUS_NOT_ALLOWED);
    cr_assert(strstr(error.text, "another address"), "%s", error.text);
    described_lives_destroy(lives);
}

Test(described_lives, no_crowd_makes_it_forget)
{
    struct described_lives *lives;
    cr_assert_eq(described_lives_create(&lives), STATUS_OK);
    for (uint64_t i = 1; i <= DESCRIBED_LIVES_MAX; i++)
        cr_assert_eq(note(lives, i, (uint8_t)i), STATUS_OK);
    cr_assert_eq(note(lives, DESCRIBED_LIVES_MAX + 1, 1), STATUS_QUEUE_FULL);
    for (uint64_t i = 1; i <= DESCRIBED_LIVES_MAX; i++) {
        cr_assert_eq(note(lives, i, (uint8_t)i), STATUS_OK);
        cr_assert_eq(note(lives, i, (uint8_t)(i + 1)), STATUS_NOT_ALLOWED);
    }
    described_lives_destroy(lives);
}
