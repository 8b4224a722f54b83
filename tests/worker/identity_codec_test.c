/* identity_codec: what goes out comes in equal; what is absent or out of range is named. */
#include "worker/identity_codec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct worker_identity some_identity(void)
{
    struct worker_identity identity = {
        .name = "worker",
        .transport = "am-tcp",
        .ucx_version = "1.13.1",
        .geometry = {.n_layers = 5,
                     .n_kv_heads = 2,
                     .head_dim = 32,
                     .block_tokens = 16,
                     .dtype = KV_BF16,
                     .model_digest = {1, UINT64_MAX}},
        .address = {.worker_bytes = 3, .worker = {7, 8, 9}, .incarnation = 42, .pieces_max = 5},
    };
    return identity;
}

Test(identity_codec, an_identity_survives_the_wire)
{
    struct worker_identity identity = some_identity(), again;
    struct identity_message message;
    struct error error = {0};
    identity_encode(&identity, &message);
    cr_assert_eq(identity_decode(&message.message, &again, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(identity_match(&identity, &again, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(again.address.incarnation, 42);
    cr_assert_eq(again.address.worker_bytes, 3);
    cr_assert_eq(again.address.pieces_max, 5);
    cr_assert_arr_eq(again.address.worker, identity.address.worker, 3);
    cr_assert_eq(again.geometry.model_digest[1], UINT64_MAX);
}

#define REFUSES_IDENTITY(word, change)                                                             \
    do {                                                                                           \
        struct worker_identity identity = some_identity(), again;                                  \
        struct identity_message message;                                                           \
        struct error error = {0};                                                                  \
        identity_encode(&identity, &message);                                                      \
        change;                                                                                    \
        cr_assert_eq(identity_decode(&message.message, &again, &error), STATUS_INVALID_ARGUMENT,   \
                     word);                                                                        \
        cr_assert_not_null(strstr(error.text, word), "%s", error.text);                            \
    } while (0)

Test(identity_codec, refuses_by_name)
{
    char dtype[] = "f64", short_digest[] = "abc", big_digest[] = "ABCDEF00ABCDEF00ABCDEF00ABCDEF00";
    static uint8_t bytes[4096];
    struct worker_identity identity;
    struct error error = {0};
    cr_assert_eq(identity_decode(NULL, &identity, &error), STATUS_INVALID_ARGUMENT);
    REFUSES_IDENTITY("incarnation", message.message.incarnation = 0);
    REFUSES_IDENTITY("geometry", message.message.geometry = NULL);
    REFUSES_IDENTITY("dtype", message.geometry.message.dtype = dtype);
    REFUSES_IDENTITY("model_digest", message.geometry.message.model_digest = short_digest);
    REFUSES_IDENTITY("model_digest", message.geometry.message.model_digest = big_digest);
    REFUSES_IDENTITY("block_bytes", message.geometry.message.block_bytes++);
    REFUSES_IDENTITY("n_layers", message.geometry.message.n_layers = 0);
    REFUSES_IDENTITY("block_tokens", message.geometry.message.block_tokens = 12);
    REFUSES_IDENTITY("transport_address", message.message.transport_address.data = bytes;
                     message.message.transport_address.len = sizeof bytes);
    REFUSES_IDENTITY("pool_key", message.message.pool_key.data = bytes;
                     message.message.pool_key.len = sizeof bytes);
}

Test(identity_codec, a_pair_that_does_not_fit_is_told_both_values)
{
    struct worker_identity ours = some_identity(), theirs = some_identity();
    struct error error = {0};
    theirs.geometry.block_tokens = 32;
    cr_assert_eq(identity_match(&ours, &theirs, &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert(strstr(error.text, "16") && strstr(error.text, "32"), "%s", error.text);
    theirs = some_identity();
    snprintf(theirs.transport, sizeof theirs.transport, "shm-read");
    cr_assert_eq(identity_match(&ours, &theirs, &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert(strstr(error.text, "am-tcp") && strstr(error.text, "shm-read"), "%s", error.text);
}
