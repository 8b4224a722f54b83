/*
 * attention_flash_sm90 - attention_flash for sm_90 only: MATH_BF16 over a BF16 cache, heads of 128, rows of BF16 or F32 at
 * multiples of 8 bytes, with products of four warps. The bits are the same: tiles of keys, m and the order of every sum are
 * those of attention_flash.cuh, and both kinds of product give the same sums for the same 16 elements.
 *
 * Grid: x as many CTAs as there are processors; with several contexts, one for each tile and pair of heads. The CTAs get the
 * tiles of attention_flash in turn, back and forth: longest first, and for each tile all pairs of heads that share keys.
 * The warps of a CTA:
 *
 *     0 .. 3    load K and V with cp.async into a ring of SM90_SLOTS tiles of [2 panels of 64 elements][FLASH_KEYS], rows of
 *               128 bytes, swizzled by 128; after the ring two barriers a slot
 *     4 .. 7    compute the rows of the pair's first head, 8 .. 11 those of its second; Q, weights and sums in registers
 *
 * K of a tile is multiplied together with V of the tile before: the order of the ring is K 0, K 1, V 0, K 2, V 1 ... Scores
 * become weights while sums of V are computed; keys of the next pair are loaded while rows are stored. Bound: tensor cores.
 * Oracle: attention_flash.cuh, to the bit.
 */
#pragma once

#include "kernels/cuda/attention_flash.cuh"
#include "kernels/cuda/hardware_sm90.cuh"

#define SM90_HEAD       128u
#define SM90_SLOTS      6u
#define SM90_LAG        3 /* slots with loads in flight before the first one is waited for */
#define SM90_PANEL      (FLASH_KEYS * 128) /* bytes */
#define SM90_SLOT_BYTES (2 * SM90_PANEL)

/* Addresses in shared memory: the slots, and for each slot two barriers of 8 bytes, full and empty. */
struct sm90_ring {
    uint32_t slots, full, empty;
};

/* A place in the ring; the phase of its barriers. */
struct sm90_turn {
    uint32_t slot, phase;
};

DEVICE void sm90_next(struct sm90_turn &turn)
{
    turn.slot++;
    if (turn.slot == SM90_SLOTS) {
        turn.slot = 0;
        turn.phase ^= 1;
    }
}

/* The rows of a CTA: a tile and a pair of heads. The last pair of a group may have one head only. */
struct sm90_pair {
    uint32_t tile, first_head, n_heads;
};

/* The pair of the CTA in a round. False: there is none in this and all later rounds. */
DEVICE bool sm90_deal(const struct attention_parameters &p, uint32_t round,
                      struct sm90_pair &pair_out)
{
    const uint32_t group = p.n_heads / p.n_kv_heads, of_group = (group + 1) / 2;
    const uint32_t n_pairs = p.n_kv_heads * of_group;
    const uint32_t place = round * gridDim.x +
                           (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    const uint32_t pair = place % n_pairs, within = pair % of_group * 2;
    if (place / n_pairs >= p.n_flash_tiles)
        return false;
    pair_out = {p.n_flash_tiles - 1 - place / n_pairs, pair / of_group * group + within,
                group - within < 2 ? 1u : 2u};
    return true;
}

/* ---- warps 0 .. 3 ---- */

/* Whether the stride of 16 keys, from a multiple of 16 on, is token_bytes. */
DEVICE bool sm90_has_runs(const struct attention_parameters &p, const struct cuda_sequence &s)
{
    return !p.is_cyclic && !p.reads_workspace && s.first_source == ATTENTION_NONE &&
           (p.is_contiguous || p.block_tokens % 16 == 0);
}

/* A warp's 16 keys of a tile. is_run: all lanes have the address of the first key; else as from flash_find. */
struct sm90_keys {
    struct flash_key at;
    bool is_run;
};

DEVICE struct sm90_keys sm90_find(const struct attention_parameters &p, const struct flash_tile &t,
                                  bool has_runs, uint32_t first)
{
    const uint32_t of_warp = first + flash_warp() * 16;
    if (!has_runs || of_warp < t.keys.begin || of_warp + 16 > t.keys.end)
        return {flash_find(p, t, first), false};
    const struct key_place place = find_key(p, *t.sequence, t.tile.beam, t.kv_head, of_warp);
    return {{(uint64_t)(uintptr_t)place.k, (uint64_t)(uintptr_t)(place.k + place.v_bytes)}, true};
}

/* Loads the warp's 16 rows of a slot, as load_rows, but into panels. */
DEVICE void sm90_load(const struct attention_parameters &p, uint32_t slot, bool is_run,
                      uint64_t address)
{
    const uint32_t lane = threadIdx.x % WARP, chunk = lane % 16;
    const uint32_t panel = slot + chunk / 8 * SM90_PANEL + flash_warp() * 16 * 128;
    const uint32_t of_lane = panel + lane / 16 * 128, swizzled = (chunk % 8 ^ lane / 16) << 4;
    if (is_run) {
        const uint8_t *from = (const uint8_t *)(uintptr_t)address + lane / 16 * p.token_bytes +
                              chunk * 16;
        UNROLL
        for (uint32_t i = 0; i < 8; i++)
            cp_async16(of_lane + i * 256 + (swizzled ^ i % 4 * 32), from + i * 2 * p.token_bytes,
                       true);
        return;
    }
    UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t row = i * 2 + lane / 16;
        const uint64_t high = shuffle((uint32_t)(address >> 32), row);
        const uint64_t from = high << 32 | shuffle((uint32_t)address, row);
        const uint8_t *source = (const uint8_t *)(uintptr_t)from + chunk * 16;
        cp_async16(of_lane + i * 256 + (swizzled ^ i % 4 * 32),
                   from != 0 ? source : (const uint8_t *)p.queries, from != 0);
    }
}

/* Tells that the warp's rows of the slot have arrived. */
DEVICE void sm90_tell(const struct sm90_ring &ring, struct sm90_turn &told)
{
    publish_smem_to_async();
    warp_sync();
    if (threadIdx.x % WARP == 0)
        mbarrier_arrive(ring.full + told.slot * 8);
    sm90_next(told);
}

/* The place of the next load, that of the next report, and the number of loads in flight. */
struct sm90_brought {
    struct sm90_turn now, told;
    uint32_t n_under_way;
};

DEVICE void sm90_bring_rows(const struct attention_parameters &p, const struct sm90_ring &ring,
                            bool is_run, uint64_t address, struct sm90_brought &b)
{
    mbarrier_wait(ring.empty + b.now.slot * 8, b.now.phase ^ 1);
    sm90_load(p, ring.slots + b.now.slot * SM90_SLOT_BYTES, is_run, address);
    cp_async_commit();
    sm90_next(b.now);
    if (b.n_under_way < SM90_LAG) {
        b.n_under_way++;
        return;
    }
    cp_async_wait<SM90_LAG>();
    sm90_tell(ring, b.told);
}

DEVICE void sm90_bring_tile(const struct attention_parameters &p, const struct flash_tile &t,
                            const struct sm90_ring &ring, struct sm90_brought &b)
{
    const bool has_runs = sm90_has_runs(p, *t.sequence);
    uint32_t first = t.keys.begin / FLASH_KEYS * FLASH_KEYS;
    struct sm90_keys keys = sm90_find(p, t, has_runs, first);
    sm90_bring_rows(p, ring, keys.is_run, keys.at.k, b);
    for (first += FLASH_KEYS; first < t.keys.end; first += FLASH_KEYS) {
        const struct sm90_keys next = sm90_find(p, t, has_runs, first);
        sm90_bring_rows(p, ring, next.is_run, next.at.k, b);
        sm90_bring_rows(p, ring, keys.is_run, keys.at.v, b);
        keys = next;
    }
    sm90_bring_rows(p, ring, keys.is_run, keys.at.v, b);
}

DEVICE void sm90_bring(const struct attention_parameters &p, const struct sm90_ring &ring)
{
    struct sm90_brought brought = {};
    struct sm90_pair pair;
    for (uint32_t round = 0; sm90_deal(p, round, pair); round++) {
        const struct flash_tile t = flash_tile_of(p, pair.tile, pair.first_head);
        if (t.sequence->kind != SEQUENCE_IS_DUMMY)
            sm90_bring_tile(p, t, ring, brought);
    }
    cp_async_wait<0>();
    for (; brought.n_under_way != 0; brought.n_under_way--)
        sm90_tell(ring, brought.told);
}

/* ---- the warps of a head ---- */

DEVICE uint32_t sm90_take(const struct sm90_ring &ring, const struct sm90_turn &turn)
{
    mbarrier_wait(ring.full + turn.slot * 8, turn.phase);
    return ring.slots + turn.slot * SM90_SLOT_BYTES;
}

DEVICE void sm90_leave(const struct sm90_ring &ring, const struct sm90_turn &turn)
{
    if (threadIdx.x % WARP == 0)
        mbarrier_arrive(ring.empty + turn.slot * 8);
}

DEVICE void sm90_score(uint32_t slot, const uint32_t (&q)[SM90_HEAD / 16][4],
                       float (&s)[FLASH_KEYS / 8][4])
{
    const uint64_t operand = wgmma_operand(slot, 16, 1024);
    UNROLL
    for (uint32_t k = 0; k < SM90_HEAD / 16; k++)
        wgmma_narrow((float(&)[FLASH_KEYS / 2]) s, q[k],
                     operand + (k / 4 * SM90_PANEL + k % 4 * 32) / 16, k > 0);
    wgmma_commit();
}

DEVICE void sm90_add(uint32_t slot, const uint32_t (&a)[FLASH_KEYS / 16][4],
                     struct flash_sums<SM90_HEAD> &sums)
{
    const uint64_t operand = wgmma_operand(slot, SM90_PANEL, 1024);
    UNROLL
    for (uint32_t k = 0; k < FLASH_KEYS / 16; k++)
        wgmma_registers((float(&)[SM90_HEAD / 2]) sums.o, a[k], operand + k * 16 * 128 / 16, true);
    wgmma_commit();
}

DEVICE void sm90_pack(const float (&s)[FLASH_KEYS / 8][4], uint32_t (&a)[FLASH_KEYS / 16][4])
{
    UNROLL
    for (uint32_t k = 0; k < FLASH_KEYS / 16; k++)
        flash_pack<true>(s, k, a[k]);
}

/* Computes a tile of queries. A slot is left when it is not read any more. */
DEVICE void sm90_attend(const struct attention_parameters &p, const struct flash_tile &t,
                        const struct sm90_ring &ring, struct sm90_turn &turn,
                        struct flash_sums<SM90_HEAD> &sums)
{
    uint32_t first = t.keys.begin / FLASH_KEYS * FLASH_KEYS;
    uint32_t q[SM90_HEAD / 16][4], a[FLASH_KEYS / 16][4];
    float s[FLASH_KEYS / 8][4], factor[2];
    flash_load_queries<SM90_HEAD>(p, t, q);
    uint32_t slot = sm90_take(ring, turn);
    wgmma_begin();
    sm90_score(slot, q, s);
    wgmma_wait<0>();
    wgmma_keep((float(&)[FLASH_KEYS / 2]) s);
    sm90_leave(ring, turn);
    sm90_next(turn);
    flash_hide(p, t, first, s);
    flash_weigh<SM90_HEAD>(sums, s, factor);
    sm90_pack(s, a);
    for (first += FLASH_KEYS; first < t.keys.end; first += FLASH_KEYS) {
        const struct sm90_turn of_k = turn;
        slot = sm90_take(ring, turn);
        wgmma_begin();
        sm90_score(slot, q, s);
        sm90_next(turn);
        slot = sm90_take(ring, turn);
        wgmma_begin();
        sm90_add(slot, a, sums);
        wgmma_wait<1>();
        wgmma_keep((float(&)[FLASH_KEYS / 2]) s);
        sm90_leave(ring, of_k);
        flash_hide(p, t, first, s);
        flash_weigh<SM90_HEAD>(sums, s, factor);
        wgmma_wait<0>();
        wgmma_keep((float(&)[SM90_HEAD / 2]) sums.o);
        sm90_leave(ring, turn);
        sm90_next(turn);
        flash_scale<SM90_HEAD>(factor, sums);
        sm90_pack(s, a);
    }
    slot = sm90_take(ring, turn);
    wgmma_begin();
    sm90_add(slot, a, sums);
    wgmma_wait<0>();
    wgmma_keep((float(&)[SM90_HEAD / 2]) sums.o);
    sm90_leave(ring, turn);
    sm90_next(turn);
}

/* Takes and leaves the slots of a tile that these warps do not need. */
DEVICE void sm90_pass(const struct flash_tile &t, const struct sm90_ring &ring,
                      struct sm90_turn &turn)
{
    const uint32_t begin = t.keys.begin / FLASH_KEYS * FLASH_KEYS;
    for (uint32_t first = begin; first < t.keys.end; first += FLASH_KEYS)
        for (uint32_t i = 0; i < 2; i++) {
            (void)sm90_take(ring, turn);
            warp_sync(); /* all lanes have waited before the slot is left: the phase after next has the same bit */
            sm90_leave(ring, turn);
            sm90_next(turn);
        }
}

/* Stores elements at and at + 1 of a row, divided by total, as BF16 or F32. */
DEVICE void sm90_store_pair(bool is_bf16, void *row, uint32_t at, float low, float high,
                            float total)
{
    const float x = total == 0 ? 0 : low / total, y = total == 0 ? 0 : high / total;
    if (is_bf16) {
        store_word((uint16_t *)row + at, pack_bf16(x, y));
    } else {
        const uint32_t pair[2] = {float_bits(x), float_bits(y)};
        store_vector8((float *)row + at, pair);
    }
}

DEVICE void sm90_store(const struct attention_parameters &p, const struct flash_tile &t,
                       const struct flash_sums<SM90_HEAD> &sums)
{
    const uint32_t lane = threadIdx.x % WARP;
    const bool is_bf16 = p.compute == DTYPE_BF16;
    UNROLL
    for (uint32_t j = 0; j < 2; j++) {
        const uint32_t of_tile = flash_warp() * 16 + lane / 4 + j * 8;
        float total = sums.total[j];
        total += shuffle_xor(total, 1);
        total += shuffle_xor(total, 2);
        if (of_tile >= t.tile.n_tokens)
            continue;
        const uint64_t row = p.token_rows[t.tile.first_token + of_tile];
        const uint64_t at = row * p.output_stride + t.head * SM90_HEAD + lane % 4 * 2;
        void *output = (uint8_t *)p.output + at * (is_bf16 ? 2 : 4);
        UNROLL
        for (uint32_t i = 0; i < SM90_HEAD / 8; i++)
            sm90_store_pair(is_bf16, output, i * 8, sums.o[i][2 * j], sums.o[i][2 * j + 1], total);
        if (lane % 4 == 0 && p.lse)
            p.lse[row * p.n_heads + t.head] = lse_of(p.math, sums.m[j], total);
    }
}

/* half: the head of the pair that these warps compute. */
DEVICE void sm90_compute(const struct attention_parameters &p, const struct sm90_ring &ring,
                         uint32_t half)
{
    struct sm90_turn turn = {0, 0};
    struct sm90_pair pair;
    for (uint32_t round = 0; sm90_deal(p, round, pair); round++) {
        const struct flash_tile t = flash_tile_of(p, pair.tile, pair.first_head + half);
        const bool is_dummy = t.sequence->kind == SEQUENCE_IS_DUMMY;
        struct flash_sums<SM90_HEAD> sums;
        if (half >= pair.n_heads) {
            if (!is_dummy)
                sm90_pass(t, ring, turn);
            continue;
        }
        flash_begin<SM90_HEAD>(p, t, sums);
        if (!is_dummy)
            sm90_attend(p, t, ring, turn, sums);
        sm90_store(p, t, sums);
    }
}

DEVICE void sm90_set_barriers(const struct sm90_ring &ring)
{
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < SM90_SLOTS; i++) {
            mbarrier_init(ring.full + i * 8, 4);
            mbarrier_init(ring.empty + i * 8, 8);
        }
        mbarrier_publish();
    }
    cta_sync();
}

DEVICE void attention_flash_sm90_body(const struct attention_parameters &p)
{
#if IS_SM90
    SHARED_MEMORY(memory);
    const uint32_t slots = shared_address(memory), barriers = slots + SM90_SLOTS * SM90_SLOT_BYTES;
    const struct sm90_ring ring = {slots, barriers, barriers + SM90_SLOTS * 8};
    sm90_set_barriers(ring);
    const uint32_t part = shuffle(threadIdx.x / 128, 0); /* shows that a warp has one value */
    if (part == 0) {
        registers_give<72>();
        sm90_bring(p, ring);
    } else {
        registers_take<216>();
        sm90_compute(p, ring, part - 1);
    }
#endif
}
