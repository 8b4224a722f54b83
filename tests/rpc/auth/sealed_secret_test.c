/* sealed_secret: opens for whom it was sealed and under the cluster's keys, before, during and after a
 * change; nothing that is altered, cut or moved to another life opens, and nothing of it is left. */
#include "rpc/auth/sealed_secret.h"

#include <criterion/criterion.h>
#include <string.h>

enum { SECRET_BYTES = 32, SEALED_BYTES = SECRET_BYTES + SEAL_BYTES };

static const struct seal_terms TERMS = {
    .field = "transport_secret", .role = "context", .sender = 17, .receiver = 42};

static const uint8_t SECRET[SECRET_BYTES] = "of this incarnation, and no word";

/* Keys of one repeated byte; second 0: none. */
static struct cluster_key *key_of(uint8_t first, uint8_t second)
{
    struct cluster_key *key;
    struct key_set keys = {.n = second ? 2 : 1};
    memset(keys.keys[0], first, CLUSTER_KEY_BYTES);
    memset(keys.keys[1], second, CLUSTER_KEY_BYTES);
    cr_assert_eq(cluster_key_create(&keys, &key), STATUS_OK);
    return key;
}

static void seal(struct cluster_key *key, uint8_t sealed[SEALED_BYTES])
{
    cr_assert_eq(sealed_secret_make(key, &TERMS, SECRET, SECRET_BYTES, sealed), STATUS_OK);
}

static bool opens(struct cluster_key *key, const struct seal_terms *terms, const uint8_t *sealed,
                  size_t bytes)
{
    static const uint8_t NOTHING[SECRET_BYTES];
    uint8_t secret[SECRET_BYTES] = {0};
    enum status status = sealed_secret_open(key, terms, sealed, bytes, secret);
    cr_expect_arr_eq(secret, status == STATUS_OK ? SECRET : NOTHING, SECRET_BYTES);
    cr_expect(status == STATUS_OK || status == STATUS_UNAUTHENTICATED, "%u", status);
    return status == STATUS_OK;
}

Test(sealed_secret, opens_for_whom_it_was_sealed_and_is_another_text_each_time)
{
    uint8_t sealed[SEALED_BYTES], again[SEALED_BYTES];
    struct cluster_key *key = key_of(1, 0), *other = key_of(2, 0);
    seal(key, sealed);
    seal(key, again);
    cr_assert(opens(key, &TERMS, sealed, sizeof sealed));
    cr_assert(opens(key, &TERMS, again, sizeof again));
    cr_assert_not(opens(other, &TERMS, sealed, sizeof sealed));
    cr_assert_arr_neq(sealed, again, SEAL_NONCE_BYTES);
    cr_assert_arr_neq(sealed + SEAL_NONCE_BYTES, again + SEAL_NONCE_BYTES, SECRET_BYTES);
    for (size_t i = 0; i + 4 <= sizeof sealed; i++)
        for (size_t j = 0; j + 4 <= SECRET_BYTES; j++)
            cr_assert_neq(memcmp(sealed + i, SECRET + j, 4), 0, "%zu %zu", i, j);
    cluster_key_destroy(key);
    cluster_key_destroy(other);
}

Test(sealed_secret, no_byte_can_be_changed_and_none_left_out)
{
    uint8_t sealed[SEALED_BYTES + 1] = {0};
    struct cluster_key *key = key_of(1, 0);
    seal(key, sealed);
    for (size_t i = 0; i < SEALED_BYTES; i++) {
        sealed[i] ^= 1;
        cr_expect_not(opens(key, &TERMS, sealed, SEALED_BYTES), "byte %zu", i);
        sealed[i] ^= 1;
    }
    for (size_t n = 0; n < SEALED_BYTES; n++)
        cr_expect_not(opens(key, &TERMS, sealed, n), "%zu bytes", n);
    cr_assert(opens(key, &TERMS, sealed, SEALED_BYTES));
    cluster_key_destroy(key);
}

Test(sealed_secret, cannot_be_moved_to_another_life_role_or_field)
{
    uint8_t sealed[SEALED_BYTES];
    struct cluster_key *key = key_of(1, 0);
    struct seal_terms others[] = {TERMS, TERMS, TERMS, TERMS, TERMS};
    others[0].sender++;
    others[1].receiver++;
    others[2].role = "generation";
    others[3].field = "another_secret";
    others[4].sender = TERMS.receiver; /* sent back to who sealed it */
    others[4].receiver = TERMS.sender;
    seal(key, sealed);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect_not(opens(key, &others[i], sealed, sizeof sealed), "case %zu", i);
    cluster_key_destroy(key);
}

/* Both neighbours of each step of a change of the key understand each other; the ends do not. */
Test(sealed_secret, opens_on_both_sides_of_each_step_of_a_change_of_the_key)
{
    struct cluster_key *steps[] = {key_of(1, 0), key_of(1, 2), key_of(2, 1), key_of(2, 0)};
    for (int from = 0; from < 4; from++) {
        uint8_t sealed[SEALED_BYTES];
        seal(steps[from], sealed);
        for (int to = 0; to < 4; to++) {
            bool is_known = from < 2 ? to != 3 : to != 0;
            cr_expect_eq(opens(steps[to], &TERMS, sealed, sizeof sealed), is_known, "%d %d", from,
                         to);
        }
    }
    for (int i = 0; i < 4; i++)
        cluster_key_destroy(steps[i]);
}
