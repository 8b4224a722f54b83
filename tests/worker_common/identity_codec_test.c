/* identity_codec: what goes out comes in equal, its secret sealed for one reader; what is absent or out of
 * range is named. */
#include "worker_common/identity_codec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const struct identity_allowance EQUAL = {"equal", false};

static struct worker_identity some_identity(void)
{
    struct worker_identity identity = {
        .name = "worker",
        .transport = "am-tcp",
        .ucx_version = "1.13.1",
        .revision = 7,
        .geometry = {.n_layers = 5,
                     .n_kv_heads = 2,
                     .head_dim = 32,
                     .block_tokens = 16,
                     .dtype = KV_INT8,
                     .model_digest = {1, UINT64_MAX},
                     .numerics = "cpu-f32-fma-fma-compute-asis-1",
                     .kv_scales = 0xfedcba9876543210},
        .address = {.worker_bytes = 3,
                    .worker = {7, 8, 9},
                    .incarnation = 42,
                    .pieces_max = 5,
                    .hosts = {{4, {10, 0, 0, 1}}, {16, {[15] = 1}}},
                    .n_hosts = 2,
                    .secret = {3, 1, 4},
                    .secret_bytes = TRANSPORT_SECRET_BYTES},
    };
    return identity;
}

/* To a life 43, of a cluster whose key is that byte, over and over. */
static struct identity_way way_with(uint8_t key)
{
    struct key_set keys = {.n = 1};
    struct identity_way way = {.sender = IDENTITY_CALLER, .receiver = 43};
    memset(keys.keys[0], key, CLUSTER_KEY_BYTES);
    cr_assert_eq(cluster_key_create(&keys, &way.key), STATUS_OK);
    return way;
}

static void encode(const struct worker_identity *identity, const struct identity_way *way,
                   struct identity_message *message_out)
{
    struct error error = {0};
    cr_assert_eq(identity_encode(identity, way, message_out, &error), STATUS_OK, "%s", error.text);
}

Test(identity_codec, an_identity_survives_the_wire)
{
    struct identity_way way = way_with(1);
    struct worker_identity identity = some_identity(), again;
    struct identity_message message;
    struct error error = {0};
    encode(&identity, &way, &message);
    cr_assert_eq(identity_decode(&message.message, &way, &again, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(identity_match(&identity, &again, &EQUAL, &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(again.address.incarnation, 42);
    cr_assert_eq(again.revision, 7);
    cr_assert_eq(again.address.worker_bytes, 3);
    cr_assert_eq(again.address.pieces_max, 5);
    cr_assert_arr_eq(again.address.worker, identity.address.worker, 3);
    cr_assert_eq(again.address.n_hosts, 2);
    cr_assert_arr_eq(again.address.hosts, identity.address.hosts, sizeof identity.address.hosts);
    cr_assert_eq(again.address.secret_bytes, TRANSPORT_SECRET_BYTES);
    cr_assert_arr_eq(again.address.secret, identity.address.secret, TRANSPORT_SECRET_BYTES);
    cr_assert_eq(again.geometry.model_digest[1], UINT64_MAX);
    cr_assert_str_eq(again.geometry.numerics, identity.geometry.numerics);
    cr_assert_eq(again.geometry.dtype, KV_INT8);
    cr_assert_eq(again.geometry.kv_scales, 0xfedcba9876543210);
    cluster_key_destroy(way.key);
}

#define REFUSES_IDENTITY(word, change)                                                             \
    do {                                                                                           \
        struct identity_way way = way_with(1);                                                     \
        struct cluster_key *key = way.key;                                                         \
        struct worker_identity identity = some_identity(), again = {0};                            \
        struct identity_message message;                                                           \
        struct error error = {0};                                                                  \
        encode(&identity, &way, &message);                                                         \
        change;                                                                                    \
        cr_assert_eq(identity_decode(&message.message, &way, &again, &error),                      \
                     STATUS_INVALID_ARGUMENT, word);                                               \
        cr_assert_not_null(strstr(error.text, word), "%s", error.text);                            \
        cr_assert_eq(again.address.secret_bytes, 0);                                               \
        cluster_key_destroy(key);                                                                  \
    } while (0)

Test(identity_codec, refuses_by_name)
{
    char shout[] = "CPU", list[] = "a,b", long_id[NUMERICS_ID_MAX + 1] = {0};
    memset(long_id, 'a', NUMERICS_ID_MAX);
    char dtype[] = "f64", short_digest[] = "abc", no_scales[] = "0000000000000000",
         big_digest[] = "ABCDEF00ABCDEF00ABCDEF00ABCDEF00";
    static uint8_t bytes[4096];
    struct worker_identity identity;
    struct error error = {0};
    cr_assert_eq(identity_decode(NULL, &(struct identity_way){0}, &identity, &error),
                 STATUS_INVALID_ARGUMENT);
    REFUSES_IDENTITY("incarnation", message.message.incarnation = 0);
    REFUSES_IDENTITY("geometry", message.message.geometry = NULL);
    REFUSES_IDENTITY("dtype", message.geometry.message.dtype = dtype);
    REFUSES_IDENTITY("kv_scales", message.geometry.message.kv_scales = short_digest);
    REFUSES_IDENTITY("kv_scales", message.geometry.message.kv_scales = no_scales);
    REFUSES_IDENTITY("model_digest", message.geometry.message.model_digest = short_digest);
    REFUSES_IDENTITY("model_digest", message.geometry.message.model_digest = big_digest);
    REFUSES_IDENTITY("numerics", message.geometry.message.numerics = shout);
    REFUSES_IDENTITY("numerics", message.geometry.message.numerics = list);
    REFUSES_IDENTITY("numerics", message.geometry.message.numerics = long_id);
    REFUSES_IDENTITY("block_bytes", message.geometry.message.block_bytes++);
    REFUSES_IDENTITY("n_layers", message.geometry.message.n_layers = 0);
    REFUSES_IDENTITY("block_tokens", message.geometry.message.block_tokens = 12);
    REFUSES_IDENTITY("block_layers is 2 without", message.geometry.message.block_layers = 2);
    REFUSES_IDENTITY("transport_address", message.message.transport_address.data = bytes;
                     message.message.transport_address.len = sizeof bytes);
    REFUSES_IDENTITY("transport_secret has 59", message.message.transport_secret.len--);
    REFUSES_IDENTITY("transport_secret has 32", message.message.transport_secret.len = 32);
    REFUSES_IDENTITY("host_addresses", message.hosts[1].len = 5);
    REFUSES_IDENTITY("host_addresses", message.message.n_host_addresses = 9);
    REFUSES_IDENTITY("pool_key", message.message.pool_key.data = bytes;
                     message.message.pool_key.len = sizeof bytes);
}

/* Two groups: one layer of all tokens, the others with a window. */
static struct geometry_message *in_groups(struct identity_message *message, uint32_t n_layers)
{
    struct geometry_message *geometry = &message->geometry;
    for (uint32_t i = 0; i < CACHE_GROUPS_MAX; i++) {
        kvferry__v1__cache_group__init(&geometry->groups[i]);
        geometry->groups[i].n_layers = i == 0 ? 1 : n_layers - 1;
        geometry->groups[i].window = i == 0 ? 0 : 64;
        geometry->group_pointers[i] = &geometry->groups[i];
    }
    geometry->message.groups = geometry->group_pointers;
    geometry->message.n_groups = 2;
    geometry->message.block_layers = n_layers - 1;
    geometry->message.block_bytes = geometry->message.block_bytes / n_layers * (n_layers - 1);
    return geometry;
}

#define REFUSES_GROUPS(word, change)                                                               \
    REFUSES_IDENTITY(word, {                                                                       \
        struct geometry_message *geometry = in_groups(&message,                                    \
                                                      some_identity().geometry.n_layers);          \
        change;                                                                                    \
    })

Test(identity_codec, groups_of_layers_that_do_not_fit_are_refused_by_name)
{
    Kvferry__V1__CacheGroup *many[CACHE_GROUPS_MAX + 1];
    REFUSES_GROUPS("geometry.groups are 17, at most 16", {
        for (uint32_t i = 0; i <= CACHE_GROUPS_MAX; i++)
            many[i] = &geometry->groups[0];
        geometry->message.groups = many;
        geometry->message.n_groups = CACHE_GROUPS_MAX + 1;
    });
    REFUSES_GROUPS("group 0 has 0 layers", geometry->groups[0].n_layers = 0);
    REFUSES_GROUPS("layers, wanted 1 to", geometry->groups[1].n_layers++);
    REFUSES_GROUPS("layers, wanted 1 to", geometry->groups[1].n_layers = UINT32_MAX);
    REFUSES_GROUPS("groups have", geometry->groups[1].n_layers--);
    REFUSES_GROUPS("window 0 behind one with a window",
                   (geometry->groups[0].window = 64, geometry->groups[1].window = 0));
    REFUSES_GROUPS("layers, wanted 1 to 0", geometry->message.block_layers = 0);
    REFUSES_GROUPS("block_bytes", geometry->message.block_layers++);
    REFUSES_GROUPS("block_bytes", geometry->message.block_bytes++);
    REFUSES_GROUPS("bytes", geometry->message.block_layers = UINT32_MAX);
    REFUSES_GROUPS("groups have", geometry->message.n_groups = 1);
    REFUSES_GROUPS("without geometry.groups", geometry->message.n_groups = 0);
}

Test(identity_codec, groups_of_layers_come_as_they_were)
{
    struct identity_way way = way_with(1);
    struct worker_identity identity = some_identity(), again = {0};
    struct identity_message message;
    struct error error = {0};
    const uint32_t n_layers = identity.geometry.n_layers;
    identity.geometry.groups = (struct cache_groups){
        2, n_layers - 1, {{1, 0, {0}}, {n_layers - 1, 77, {0}}}, 12};
    encode(&identity, &way, &message);
    cr_assert_eq(identity_decode(&message.message, &way, &again, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_arr_eq(&again.geometry.groups, &identity.geometry.groups,
                     sizeof again.geometry.groups);
    cluster_key_destroy(way.key);
}

/* On the wire are those of the heads that the model does not have. */
Test(identity_codec, groups_with_heads_of_their_own_come_as_they_were)
{
    struct identity_way way = way_with(1);
    struct worker_identity identity = some_identity(), again = {0};
    struct identity_message message;
    struct error error = {0};
    struct geometry *geometry = &identity.geometry;
    const struct cache_heads model = {geometry->n_kv_heads, geometry->head_dim};
    const struct cache_heads wide = {model.n, 2 * model.dim};
    const uint32_t n_layers = geometry->n_layers;
    geometry->groups = (struct cache_groups){
        2, 2 * n_layers, {{1, 0, wide}, {n_layers - 1, 77, model}}, 0};
    encode(&identity, &way, &message);
    Kvferry__V1__CacheGroup **groups = message.message.geometry->groups;
    cr_assert(groups[0]->n_kv_heads == 0 && groups[0]->head_dim == wide.dim);
    cr_assert(groups[1]->n_kv_heads == 0 && groups[1]->head_dim == 0);
    cr_assert_eq(identity_decode(&message.message, &way, &again, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_arr_eq(&again.geometry.groups, &geometry->groups, sizeof again.geometry.groups);
    geometry->groups.all[0].heads = model;
    geometry->groups.places = n_layers;
    encode(&identity, &way, &message);
    cr_assert_eq(identity_decode(&message.message, &way, &again, &error), STATUS_OK);
    cr_assert_eq(geometry_match(&identity.geometry, &again.geometry, "equal", &error), STATUS_OK,
                 "heads that are the model's need not be told: %s", error.text);
    cluster_key_destroy(way.key);
}

static void as_latents(struct worker_identity *identity)
{
    identity->geometry.n_kv_heads = 1;
    identity->geometry.head_dim = 40;
    identity->geometry.latent_dim = 32;
}

/* A worker of an earlier version does not read latent_dim, and counts two rows a token: it refuses the bytes of a block. */
Test(identity_codec, latents_come_as_they_were_and_an_earlier_version_refuses_them)
{
    struct identity_way way = way_with(1);
    struct worker_identity identity = some_identity(), again = {0};
    struct identity_message message;
    struct error error = {0};
    encode(&identity, &way, &message);
    cr_assert_eq(message.geometry.message.latent_dim, 0, "as it is absent");
    as_latents(&identity);
    encode(&identity, &way, &message);
    cr_assert_eq(identity_decode(&message.message, &way, &again, &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(again.geometry.latent_dim, 32);
    cr_assert_eq(geometry_block_bytes(&again.geometry), 5 * 16 * 40);
    message.geometry.message.latent_dim = 0;
    cr_assert_eq(identity_decode(&message.message, &way, &again, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(error.text, "geometry.block_bytes is 3200; its other fields make 6400");
    message.geometry.message.latent_dim = 40;
    cr_assert_eq(identity_decode(&message.message, &way, &again, &error), STATUS_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(error.text, "latent_dim is 40"), "%s", error.text);
    cluster_key_destroy(way.key);
}

Test(identity_codec, a_secret_of_another_way_is_refused_by_name)
{
    struct identity_way other = way_with(2);
    REFUSES_IDENTITY("transport_secret cannot be decrypted", way.key = other.key);
    REFUSES_IDENTITY("transport_secret cannot be decrypted", way.receiver++);
    REFUSES_IDENTITY("transport_secret cannot be decrypted", way.sender = IDENTITY_CALLEE);
    REFUSES_IDENTITY("transport_secret cannot be decrypted", message.message.incarnation++);
    REFUSES_IDENTITY("transport_secret cannot be decrypted", message.secret[20] ^= 1);
    REFUSES_IDENTITY("transport_secret is encrypted, and there is no", way.key = NULL);
    cluster_key_destroy(other.key);
}

Test(identity_codec, without_a_key_no_secret_is_told)
{
    struct worker_identity identity = some_identity();
    struct identity_message message;
    struct error error = {0};
    const struct identity_way way = {.sender = IDENTITY_CALLER, .receiver = 43};
    cr_assert_eq(identity_encode(&identity, &way, &message, &error), STATUS_UNSUPPORTED);
    cr_assert_not_null(strstr(error.text, "transport_secret"), "%s", error.text);
    identity.address.secret_bytes = 0;
    encode(&identity, &way, &message);
    cr_assert_eq(message.message.transport_secret.len, 0);
}

Test(identity_codec, a_pair_that_does_not_fit_is_told_both_values)
{
    struct worker_identity ours = some_identity(), theirs = some_identity();
    struct error error = {0};
    theirs.geometry.block_tokens = 32;
    cr_assert_eq(identity_match(&ours, &theirs, &EQUAL, &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert(strstr(error.text, "16") && strstr(error.text, "32"), "%s", error.text);
    theirs = some_identity();
    snprintf(theirs.transport, sizeof theirs.transport, "shm-read");
    cr_assert_eq(identity_match(&ours, &theirs, &EQUAL, &error), STATUS_GEOMETRY_MISMATCH);
    cr_assert(strstr(error.text, "am-tcp") && strstr(error.text, "shm-read"), "%s", error.text);
}

Test(identity_codec, neighbouring_revisions_pair_and_no_others)
{
    static const struct {
        uint32_t ours, theirs;
        enum status status;
    } CASES[] = {
        {7, 7, STATUS_OK},
        {7, 8, STATUS_OK},
        {7, 6, STATUS_OK},
        {7, 9, STATUS_REVISION_MISMATCH},
        {7, 5, STATUS_REVISION_MISMATCH},
        {1, 0, STATUS_REVISION_MISMATCH},
        {1, UINT32_MAX, STATUS_REVISION_MISMATCH},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct worker_identity ours = some_identity(), theirs = some_identity();
        struct error error = {0};
        ours.revision = CASES[i].ours;
        theirs.revision = CASES[i].theirs;
        cr_expect_eq(identity_match(&ours, &theirs, &EQUAL, &error), CASES[i].status, "%u and %u",
                     CASES[i].ours, CASES[i].theirs);
    }
}

/* The gate of am-tcp's port would let it connect from nowhere: no hand-over could succeed. */
Test(identity_codec, a_neighbour_that_does_not_say_where_it_is_pairs_where_nobody_asks)
{
    static const struct {
        const char *transport;
        enum status status;
    } CASES[] = {
        {"am-tcp", STATUS_REVISION_MISMATCH},
        {"tls", STATUS_REVISION_MISMATCH},
        {"unix", STATUS_OK},
        {"shm-read", STATUS_OK},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct worker_identity ours = some_identity(), theirs;
        struct error error = {0};
        snprintf(ours.transport, sizeof ours.transport, "%s", CASES[i].transport);
        theirs = ours;
        theirs.revision--;
        cr_expect_eq(identity_match(&ours, &theirs, &EQUAL, &error), STATUS_OK, "%s", error.text);
        theirs.address.n_hosts = 0;
        cr_expect_eq(identity_match(&ours, &theirs, &EQUAL, &error), CASES[i].status, "%s",
                     CASES[i].transport);
        bool is_named = strstr(error.text, "host_addresses") != NULL;
        cr_expect_eq(is_named, CASES[i].status != STATUS_OK, "%s", error.text);
    }
}

Test(identity_codec, the_first_revision_does_not_pair_over_shm_read)
{
    struct worker_identity ours = some_identity(), theirs = some_identity();
    struct error error = {0};
    ours.revision = 2;
    theirs.revision = 1;
    cr_assert_eq(identity_match(&ours, &theirs, &EQUAL, &error), STATUS_OK, "%s", error.text);
    snprintf(ours.transport, sizeof ours.transport, "shm-read");
    theirs = ours;
    cr_assert_eq(identity_match(&ours, &theirs, &EQUAL, &error), STATUS_OK, "%s", error.text);
    theirs.revision = 1;
    cr_assert_eq(identity_match(&ours, &theirs, &EQUAL, &error), STATUS_REVISION_MISMATCH);
    cr_assert_not_null(strstr(error.text, "shm-read"), "%s", error.text);
}

/* What the two versions tell of a loopback. */
static const struct transport_address BY_1_13 = {
    .worker_bytes = 79,
    .worker = {0x20, 0x2b, 0xf5, 0xa9, 0x95, 0x46, 0x54, 0x41, 0xfb, 0x20, 0x00, 0x63, 0x75, 0x77,
               0xcc, 0x2b, 0x32, 0x00, 0xf8, 0xd7, 0x4f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4f, 0x03,
               0x00, 0x88, 0x47, 0x33, 0x60, 0xc3, 0x49, 0x6b, 0x21, 0xc1, 0x21, 0x92, 0x01, 0x02,
               0x06, 0xc2, 0xc5, 0x02, 0xfd, 0x09, 0x22, 0x97, 0xf9, 0xff, 0xff, 0xef, 0x00, 0x00,
               0x00, 0x00, 0xcf, 0x19, 0x17, 0xb7, 0x51, 0x38, 0x53, 0x9e, 0x3e, 0x4b, 0xd7, 0xe0,
               0x37, 0x37, 0x01, 0x13, 0x23, 0x00, 0x82, 0x13, 0x8e}};
static const struct transport_address BY_1_22 = {
    .worker_bytes = 77,
    .worker = {0x20, 0x5d, 0xea, 0xfd, 0x9d, 0x8a, 0x50, 0xec, 0x1b, 0x00, 0x00, 0x63, 0x75,
               0x77, 0xcc, 0x2b, 0x32, 0x00, 0x40, 0x97, 0x50, 0x00, 0x00, 0x00, 0x00, 0x00,
               0x4f, 0x03, 0x00, 0x88, 0xcd, 0xf6, 0x98, 0xf0, 0xb1, 0xe5, 0x2c, 0x41, 0x01,
               0x0e, 0x01, 0x02, 0x06, 0xc2, 0xc5, 0x02, 0xfd, 0x09, 0x22, 0x97, 0xf9, 0xff,
               0xff, 0xef, 0xcf, 0x19, 0x17, 0xb7, 0x51, 0x38, 0x53, 0x9e, 0x3e, 0x4b, 0xd7,
               0xe0, 0x37, 0x37, 0x01, 0x13, 0x23, 0x00, 0x82, 0x13, 0x90, 0x86, 0x80}};

/* And of a network's device. */
static const struct transport_address NETWORK_BY_1_13 = {
    .worker_bytes = 67,
    .worker = {0x20, 0x11, 0x6c, 0x8b, 0x20, 0x0d, 0x01, 0xf3, 0x30, 0x20, 0x00, 0x63, 0x75, 0x77,
               0xcc, 0x2b, 0x32, 0x00, 0xf8, 0xd7, 0x4f, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4f, 0x03,
               0x00, 0x88, 0xee, 0x0a, 0x7b, 0xe8, 0xd7, 0x82, 0xde, 0x04, 0x21, 0x86, 0x00, 0x02,
               0xc0, 0x00, 0x02, 0x02, 0xcf, 0x19, 0x17, 0xb7, 0x51, 0x38, 0x97, 0x63, 0x34, 0x4b,
               0xd7, 0xe0, 0x37, 0x37, 0x00, 0x13, 0x23, 0x00, 0x82, 0x13, 0x89}};
static const struct transport_address NETWORK_BY_1_22 = {
    .worker_bytes = 69,
    .worker = {0x20, 0xca, 0xa6, 0xf8, 0xcf, 0x42, 0xcd, 0x75, 0xe2, 0x00, 0x00, 0x63, 0x75, 0x77,
               0xcc, 0x2b, 0x32, 0x00, 0x40, 0x97, 0x50, 0x00, 0x00, 0x00, 0x00, 0x00, 0x4f, 0x03,
               0x00, 0x88, 0xef, 0xfa, 0x53, 0xdf, 0x63, 0xf0, 0xc6, 0x75, 0x01, 0x06, 0x00, 0x02,
               0xc0, 0x00, 0x02, 0x02, 0xcf, 0x19, 0x17, 0xb7, 0x51, 0x38, 0x97, 0x63, 0x34, 0x4b,
               0xd7, 0xe0, 0x37, 0x37, 0x00, 0x13, 0x23, 0x00, 0x82, 0x13, 0x89, 0x86, 0x80}};

static enum status match(const struct transport_address *ours,
                         const struct transport_address *theirs, const char *transport,
                         struct error *error)
{
    struct worker_identity one = some_identity(), other = some_identity();
    memcpy(one.address.worker, ours->worker, one.address.worker_bytes = ours->worker_bytes);
    memcpy(other.address.worker, theirs->worker, other.address.worker_bytes = theirs->worker_bytes);
    snprintf(one.transport, sizeof one.transport, "%s", transport);
    snprintf(other.transport, sizeof other.transport, "%s", transport);
    snprintf(other.ucx_version, sizeof other.ucx_version, "1.22.0");
    return identity_match(&one, &other, &EQUAL, error);
}

Test(identity_codec, versions_of_ucx_that_do_not_reach_each_other_are_refused_by_name)
{
    struct error error = {0};
    cr_assert_eq(match(&BY_1_13, &BY_1_22, "am-tcp", &error), STATUS_REVISION_MISMATCH);
    cr_assert(strstr(error.text, "UCX 1.13.1 does not reach UCX 1.22.0 over a loopback"), "%s",
              error.text);
    cr_assert_eq(match(&BY_1_22, &BY_1_13, "am-tcp", &error), STATUS_REVISION_MISMATCH);
    cr_assert_eq(match(&BY_1_22, &BY_1_22, "am-tcp", &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(match(&BY_1_13, &BY_1_13, "am-tcp", &error), STATUS_OK, "%s", error.text);
    cr_assert_eq(match(&NETWORK_BY_1_13, &NETWORK_BY_1_22, "am-tcp", &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(match(&NETWORK_BY_1_22, &NETWORK_BY_1_13, "am-tcp", &error), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(match(&BY_1_13, &BY_1_22, "tls", &error), STATUS_OK, "%s", error.text);
}
