/* geometry_codec: a message that no worker may send is refused with the field and its value, whole sentences, and leaves nothing. */
#include "process/geometry_codec.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* Two groups, one of them with a window: 2 + 3 layers in 3 places. */
static const struct geometry GOOD = {
    .n_layers = 5,
    .n_kv_heads = 2,
    .head_dim = 32,
    .block_tokens = 16,
    .dtype = KV_F16,
    .numerics = "cpu",
    .groups = {.n = 2, .places = 3, .all = {{2, 0, {0}}, {3, 64, {0}}}}};

static uint32_t n_cases;

static void expect_refused(const Kvferry__V1__Geometry *message, const char *sentence)
{
    struct geometry geometry = {.n_layers = 77};
    struct error error = {""};
    cr_expect_eq(geometry_decode(message, &geometry, &error), STATUS_INVALID_ARGUMENT, "%s",
                 sentence);
    cr_expect_str_eq(error.text, sentence);
    cr_expect_eq(geometry.n_layers, 77, "%s", sentence);
    n_cases++;
}

#define REFUSES(sentence, change)                                                                  \
    do {                                                                                           \
        struct geometry_message sent;                                                              \
        geometry_encode(&GOOD, &sent);                                                             \
        Kvferry__V1__Geometry *m = &sent.message;                                                  \
        change;                                                                                    \
        expect_refused(m, sentence);                                                               \
    } while (0)

#define LAYOUT "KV layout: "

Test(geometry_codec, a_good_message_is_taken)
{
    struct geometry_message sent;
    struct geometry geometry;
    struct error error = {""};
    geometry_encode(&GOOD, &sent);
    cr_assert_eq(geometry_decode(&sent.message, &geometry, &error), STATUS_OK, "%s", error.text);
    cr_expect_eq(geometry.groups.all[1].window, 64);
}

Test(geometry_codec, fields_of_the_model)
{
    char empty[] = "", shout[] = "F16", fp8[] = "fp8", digest[] = "0123",
         no_hex[] = "0123456789abcdef0123456789abcdeg", scales[] = "00000000000000ab",
         short_scales[] = "ab", spaced[] = "a b", e4m3[] = "e4m3";
    expect_refused(NULL, "geometry is absent");
    REFUSES("geometry.dtype \"\" is unknown", m->dtype = empty);
    REFUSES("geometry.dtype \"F16\" is unknown", m->dtype = shout);
    REFUSES("geometry.dtype \"fp8\" is unknown", m->dtype = fp8);
    REFUSES("geometry.model_digest \"0123\" is not 32 hexadecimal digits",
            m->model_digest = digest);
    REFUSES("geometry.model_digest \"0123456789abcdef0123456789abcdeg\" is not 32 hexadecimal "
            "digits",
            m->model_digest = no_hex);
    REFUSES("geometry.kv_scales \"ab\" is not 16 hexadecimal digits", m->kv_scales = short_scales);
    REFUSES(LAYOUT "kv_scales is 00000000000000ab with dtype f16", m->kv_scales = scales);
    REFUSES(LAYOUT "kv_scales is 0000000000000000 with dtype e4m3", m->dtype = e4m3);
    REFUSES("geometry.numerics \"a b\" is no id of at most 95 characters", m->numerics = spaced);
    REFUSES(LAYOUT "n_layers is 0", m->n_layers = 0);
    REFUSES(LAYOUT "n_kv_heads is 0", m->n_kv_heads = 0);
    REFUSES(LAYOUT "head_dim is 0", m->head_dim = 0);
    REFUSES(LAYOUT "block_tokens is 0, not a power of two from 8 to 128", m->block_tokens = 0);
    REFUSES(LAYOUT "block_tokens is 24, not a power of two from 8 to 128", m->block_tokens = 24);
    REFUSES(LAYOUT "block_tokens is 4294967295, not a power of two from 8 to 128",
            m->block_tokens = UINT32_MAX);
    REFUSES(LAYOUT "latent_dim is 16 with n_kv_heads 2 and head_dim 32, wanted one head that is "
                   "longer",
            m->latent_dim = 16);
    REFUSES("geometry.block_bytes is 0; its other fields make 12288", m->block_bytes = 0);
    REFUSES("geometry.block_bytes is 18446744073709551615; its other fields make 12288",
            m->block_bytes = UINT64_MAX);
    cr_expect_eq(n_cases, 19);
}

Test(geometry_codec, groups_and_what_is_beside_them)
{
    Kvferry__V1__CacheGroup *many[CACHE_GROUPS_MAX + 1];
    REFUSES("geometry.groups are 17, at most 16", {
        for (uint32_t i = 0; i <= CACHE_GROUPS_MAX; i++)
            many[i] = &sent.groups[0];
        m->groups = many;
        m->n_groups = CACHE_GROUPS_MAX + 1;
    });
    REFUSES("geometry.block_layers is 3 without geometry.groups", m->n_groups = 0);
    REFUSES(LAYOUT "group 0 has 2 layers, wanted 1 to 0", m->block_layers = 0);
    REFUSES(LAYOUT "group 1 has 3 layers, wanted 1 to 2", m->block_layers = 2);
    REFUSES(LAYOUT "group 0 has 0 layers, wanted 1 to 3", sent.groups[0].n_layers = 0);
    REFUSES(LAYOUT "group 1 has 4294967295 layers, wanted 1 to 3",
            sent.groups[1].n_layers = UINT32_MAX);
    REFUSES(LAYOUT "groups have 4 layers of n_layers 5", sent.groups[1].n_layers = 2);
    REFUSES(LAYOUT "groups have 5 layers of n_layers 4294967295", m->n_layers = UINT32_MAX);
    REFUSES(LAYOUT "group 1 has window 0 behind one with a window",
            (sent.groups[0].window = 9, sent.groups[1].window = 0));
    REFUSES(LAYOUT "the window of a group is 4294967295, at most 1073741824",
            sent.groups[1].window = UINT32_MAX);
    REFUSES(LAYOUT "group 0 has n_kv_heads 4294967295 and head_dim 32, wanted both above 0",
            sent.groups[0].n_kv_heads = UINT32_MAX);
    REFUSES(LAYOUT "a block of 5 layers, 2 kv heads, 16 tokens and head_dim 4294967295 is over "
                   "1073741824 bytes",
            m->head_dim = UINT32_MAX);
    REFUSES(LAYOUT "a sequence's recurrent state has 4097 blocks, at most 4096: raise "
                   "kv_block_tokens",
            m->state_blocks = 4097);
    REFUSES(LAYOUT "a sequence's recurrent state has 4294967295 blocks, at most 4096: raise "
                   "kv_block_tokens",
            m->state_blocks = UINT32_MAX);
    cr_expect_eq(n_cases, 14);
}

/* Of a model whose layers are alike. */
#define PLAIN (m->n_groups = 0, m->block_layers = 0)

Test(geometry_codec, sinks)
{
    REFUSES(LAYOUT "sink_tokens are 4 of a window of 0", (PLAIN, m->sink_tokens = 4));
    REFUSES(LAYOUT "sink_tokens are 64 of a window of 64",
            (PLAIN, m->sink_tokens = m->sink_window = 64));
    /* Their sum is 0 in 32 bits. */
    REFUSES(LAYOUT "sink_tokens are 2147483648 of a window of 2147483648",
            (PLAIN, m->sink_tokens = m->sink_window = 1u << 31));
    REFUSES(LAYOUT "sink_window is 4294967295, at most 1073741824",
            (PLAIN, m->sink_tokens = 4, m->sink_window = UINT32_MAX));
    REFUSES(LAYOUT "sink_tokens are 4 with 2 groups of layers and 0 blocks of recurrent state: "
                   "expected one and none",
            (m->sink_tokens = 4, m->sink_window = 64));
    REFUSES(LAYOUT "sink_tokens are 4 with 0 groups of layers and 8 blocks of recurrent state: "
                   "expected one and none",
            (PLAIN, m->sink_tokens = 4, m->sink_window = 64, m->state_blocks = 8));
    cr_expect_eq(n_cases, 6);
}
