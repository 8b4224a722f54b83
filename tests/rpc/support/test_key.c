#include "test_key.h"

#include <criterion/criterion.h>
#include <string.h>

struct cluster_key *test_key(uint8_t byte)
{
    struct key_set keys = {.n = 1};
    struct cluster_key *key;
    memset(keys.keys[0], byte, CLUSTER_KEY_BYTES);
    cr_assert_eq(cluster_key_create(&keys, &key), STATUS_OK);
    return key;
}
