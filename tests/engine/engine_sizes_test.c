/* engine_sizes: sizes that do not agree are refused with the option's name and its value. */
#include "engine/engine_sizes.h"

#include <criterion/criterion.h>
#include <string.h>

static const struct geometry GEOMETRY = {.n_layers = 1,
                                         .n_kv_heads = 1,
                                         .head_dim = 8,
                                         .block_tokens = 16,
                                         .dtype = KV_F32,
                                         .model_digest = {1, 2},
                                         .numerics = "cpu-f32-fma-fma-compute-asis-1"};

static struct engine_sizes fitting(void)
{
    return (struct engine_sizes){.geometry = &GEOMETRY,
                                 .chunk_tokens = 32,
                                 .batch_tokens = 32,
                                 .running_max = 2,
                                 .running_name = "slots_max",
                                 .queue_max = 3,
                                 .streams_max = 5};
}

/* Each row is a fitting set of sizes but for one, and a part of the sentence. */
Test(engine_sizes, names_what_does_not_agree)
{
    struct error error = {""};
    const struct engine_sizes fits = fitting();
    struct {
        struct engine_sizes sizes;
        const char *says;
    } cases[] = {
        {fits, "chunk_tokens is 0"},
        {fits, "chunk_tokens is 24, wanted a multiple of block_tokens (16)"},
        {fits, "batch_tokens is 31, under chunk_tokens 32"},
        {fits, "slots_max and queue_max cannot be 0"},
        {fits, "slots_max and queue_max cannot be 0"},
        {fits, "streams_max is 4, under slots_max + queue_max = 5"},
        {fits, "streams_max is 5, under slots_max + queue_max = 4294967298"},
    };
    cases[0].sizes.chunk_tokens = 0;
    cases[1].sizes.chunk_tokens = 24;
    cases[2].sizes.batch_tokens = 31;
    cases[3].sizes.running_max = 0;
    cases[4].sizes.queue_max = 0;
    cases[5].sizes.streams_max = 4;
    cases[6].sizes.queue_max = UINT32_MAX;
    cases[6].sizes.running_max = 3;
    cr_assert_eq(engine_sizes_check(&fits, &error), STATUS_OK, "%s", error.text);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert_eq(engine_sizes_check(&cases[i].sizes, &error), STATUS_INVALID_ARGUMENT,
                     "case %zu", i);
        cr_assert(strstr(error.text, cases[i].says), "case %zu: %s", i, error.text);
    }
}
