/* Steps that only generate, replayed: the bits and the cache of launched ones, whatever lengths and blocks came between capture
 * and replay; and launches that have nothing of a step but its bucket and its arena. */
#include "model/forward/forward_parts.h"
#include "tests/simt/model/rig.h"

#include <criterion/criterion.h>
#include <string.h>

/* A step of n sequences from first on, one token each, with everybody's logits. */
static void decode_all(struct rig *rig, struct runner_sequence *sequences, uint32_t first,
                       uint32_t n)
{
    struct forward_sequence batch[N_SEQUENCES];
    uint32_t ids[N_SEQUENCES];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t s = (first + i) % N_SEQUENCES;
        ids[i] = token_of(rig, s, sequences[s].n_past);
        batch[i] = runner_next(&sequences[s], &ids[i], 1, true);
    }
    cr_assert_eq(forward_run(rig->runner.forward, batch, n, 0, rig->logits), STATUS_OK);
}

/* A sequence goes and a shorter one comes, in other blocks: two take turns, so that each has some of the other's. */
static void change_places(struct rig *rig, struct runner_sequence *sequences)
{
    uint32_t ids[2][3];
    for (uint32_t s = 0; s < 2; s++)
        runner_end(&rig->runner, &sequences[s]);
    for (uint32_t s = 2; s-- > 0;) {
        for (uint32_t i = 0; i < 3; i++)
            ids[s][i] = token_of(rig, s, i + 5);
        runner_begin(&rig->runner, &sequences[s], 24);
        runner_prefill(&rig->runner, &sequences[s], ids[s], 3, 0, rig->logits);
    }
}

/* Lengths that cross blocks, sequences that change places: of each bucket, in both arenas, many times. */
static void compare_replays(const char *model, const struct simt_options *simt)
{
    enum { STEPS = 18 };
    struct rig plain, replayed;
    struct runner_sequence sequences[2][N_SEQUENCES];
    struct runner_options options = {
        .cache_dtype = CACHE_BF16, .sequences_max = N_SEQUENCES, .in_groups = true};
    rig_open(&plain, model, options, &(struct simt_options){0});
    rig_open(&replayed, model, options, simt);
    prefill_all(&plain, sequences[0]);
    prefill_all(&replayed, sequences[1]);
    const uint64_t before = simt_device_replays(replayed.device);
    for (uint32_t i = 0; i < STEPS; i++) {
        const uint32_t n = 1 + (i / 3) % N_SEQUENCES; /* three in a row: each arena's turn comes */
        decode_all(&plain, sequences[0], i, n);
        decode_all(&replayed, sequences[1], i, n);
        cr_expect_eq(memcmp(replayed.logits, plain.logits,
                            (size_t)n * plain.runner.vocabulary * sizeof(float)),
                     0, "%s: step %u of %u: logits", model, i, n);
        if (i == STEPS / 2) {
            change_places(&plain, sequences[0]);
            change_places(&replayed, sequences[1]);
        }
    }
    cr_expect_eq(simt_device_replays(replayed.device) - before, STEPS, "each step is a replay");
    cr_expect_eq(memcmp(replayed.runner.pool_memory.base, plain.runner.pool_memory.base,
                        plain.runner.pool_memory.bytes),
                 0, "%s: cache", model);
    end_all(&replayed, sequences[1]);
    end_all(&plain, sequences[0]);
    rig_close(&replayed);
    rig_close(&plain);
}

Test(simt_graphs, replayed_steps_have_the_bits_of_launched_ones)
{
    for (size_t m = 0; m < N_OF_BITS; m++)
        compare_replays(OF_BITS[m], &(struct simt_options){.wants_static_steps = true});
    compare_replays("llama_t5_dynamic", &(struct simt_options){.wants_static_steps = true,
                                                               .copies_late = true,
                                                               .n_processors = 13,
                                                               .poisons = true,
                                                               .seed = 3});
}

/* What a static step launches is what every step of its bucket and arena does: lengths and blocks are in the arena alone. */
Test(simt_graphs, launches_of_a_static_step_depend_on_its_bucket_alone)
{
    static const uint32_t SIZES[] = {1, 2, 4, N_SEQUENCES};
    for (size_t m = 0; m < N_OF_BITS; m++) {
        struct rig rig;
        struct runner_sequence sequences[N_SEQUENCES];
        rig_open(&rig, OF_BITS[m],
                 (struct runner_options){.cache_dtype = CACHE_BF16, .sequences_max = N_SEQUENCES},
                 &(struct simt_options){.wants_static_steps = true, .never_captures = true});
        prefill_all(&rig, sequences);
        for (size_t b = 0; b < sizeof SIZES / sizeof *SIZES; b++) {
            uint32_t of_arena[2];
            for (uint32_t i = 0; i < 4; i++) {
                (void)simt_device_launches(rig.device);
                decode_all(&rig, sequences, i, SIZES[b]);
                const uint32_t launches = simt_device_launches(rig.device);
                if (i < 2)
                    of_arena[i] = launches;
                else
                    cr_expect_eq(launches, of_arena[i % 2], "%s: %u sequences, step %u", OF_BITS[m],
                                 SIZES[b], i);
            }
            cr_expect_neq(of_arena[0], of_arena[1], "each arena has its addresses");
        }
        cr_expect_eq(simt_device_replays(rig.device), 0);
        end_all(&rig, sequences);
        rig_close(&rig);
    }
}

/* The keys of one sequence are CTAs' of their own, whatever its length, which crosses a range of them: a bucket's grid is that
 * of the longest sequence. */
Test(simt_graphs, replays_share_the_keys_of_a_long_sequence_as_launches_do)
{
    enum { LONG = 252, SHORT = 3, STEPS = 6 };
    struct rig rigs[2];
    struct runner_sequence sequences[2][2];
    uint32_t ids[LONG], of_arena[2] = {0};
    for (int r = 0; r < 2; r++) {
        struct rig *rig = &rigs[r];
        rig_open(
            rig, "demo",
            (struct runner_options){.cache_dtype = CACHE_BF16, .sequences_max = 2, .n_blocks = 80},
            &(struct simt_options){
                .wants_static_steps = true, .never_captures = r == 0, .n_processors = 132});
        const struct step_layout *layout = forward_layout_of(rig->runner.forward, 2, 0);
        cr_assert_gt(layout->metadata->limits.kv_len_max, 2 * 256, "more than a range");
        for (uint32_t s = 0; s < 2; s++) {
            const uint32_t n = s == 0 ? LONG : SHORT;
            for (uint32_t i = 0; i < n; i++)
                ids[i] = token_of(rig, s, i);
            runner_begin(&rig->runner, &sequences[r][s], n + STEPS);
            if (r == 0)
                runner_prefill(&rig->runner, &sequences[0][s], ids, n, TOKENS_MAX, rig->logits);
            else
                sequences[1][s].n_past = n;
        }
        memcpy(rig->runner.pool_memory.base, rigs[0].runner.pool_memory.base,
               rig->runner.pool_memory.bytes); /* the ids are the same */
        (void)simt_device_launches(rig->device);
    }
    for (uint32_t i = 0; i < STEPS; i++) {
        for (int r = 0; r < 2; r++)
            decode_all(&rigs[r], sequences[r], 0, 2);
        const uint32_t launches = simt_device_launches(rigs[0].device);
        if (i >= 2)
            cr_expect_eq(launches, of_arena[i % 2], "step %u", i);
        of_arena[i % 2] = launches;
        cr_expect_eq(
            memcmp(rigs[0].logits, rigs[1].logits, 2 * rigs[0].runner.vocabulary * sizeof(float)),
            0, "step %u: logits", i);
    }
    cr_expect_eq(simt_device_replays(rigs[1].device), STEPS);
    cr_expect_eq(memcmp(rigs[0].runner.pool_memory.base, rigs[1].runner.pool_memory.base,
                        rigs[0].runner.pool_memory.bytes),
                 0);
    for (int r = 0; r < 2; r++) {
        for (uint32_t s = 0; s < 2; s++)
            runner_end(&rigs[r].runner, &sequences[r][s]);
        rig_close(&rigs[r]);
    }
}
