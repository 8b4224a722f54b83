/*
 * attention_flash_sm90 - attention_flash for sm_90 alone: MATH_BF16 over a BF16 cache, heads of 128, with products of four
 * warps. The same bits: tiles of keys, m and the order of every sum are those of attention_flash.cuh, and so are the sums that
 * the two kinds of product make of the same 16 elements.
 *
 * Grid: x the tiles of attention_flash, longest first, and of each all pairs of heads that share keys. The warps of a CTA:
 *
 *     0 .. 3    bring K and V, by cp.async, into a ring of SM90_SLOTS tiles of [2 panels of 64 elements][FLASH_KEYS], rows of
 *               128 bytes, swizzled by 128; behind it two barriers a slot
 *     4 .. 7    the rows of the pair's first head, 8 .. 11 those of its second; Q, weights and sums in registers
 *
 * K of a tile is multiplied together with V of the one before it: K 0, K 1, V 0, K 2, V 1 ... is the order of the ring. Scores
 * are weighed while sums of V are under way. Bound: tensor cores. Oracle: attention_flash.cuh, to the bit.
 */
#pragma once

#include "kernels/cuda/attention_flash.cuh"
#include "kernels/cuda/hardware_sm90.cuh"

#define SM90_HEAD       128u
#define SM90_SLOTS      6u
#define SM90_LAG        3 /* slots that are under way before the first of them is waited for */
#define SM90_PANEL      (FLASH_KEYS * 128) /* bytes */
#define SM90_SLOT_BYTES (2 * SM90_PANEL)

/* Addresses in shared memory: slots, and barriers of 8 bytes: a slot is full, a slot is empty. */
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

/* Whose rows a CTA has: its place among the pairs, the last of a group may lack its second head. */
struct sm90_pair {
    uint32_t tile, first_head, n_heads;
};

DEVICE struct sm90_pair sm90_pair_of(const struct attention_parameters &p)
{
    const uint32_t group = p.n_heads / p.n_kv_heads, of_group = (group + 1) / 2;
    const uint32_t n_pairs = p.n_kv_heads * of_group, pair = blockIdx.x % n_pairs;
    const uint32_t within = pair % of_group * 2;
    return {(gridDim.x - 1 - blockIdx.x) / n_pairs, pair / of_group * group + within,
            group - within < 2 ? 1u : 2u};
}

/* ---- warps 0 .. 3 ---- */

/* As load_rows, 16 of a panel's rows; the warp's of the slot. */
DEVICE void sm90_load(uint32_t slot, uint64_t address, const void *anywhere)
{
    const uint32_t lane = threadIdx.x % WARP, chunk = lane % 16;
    const uint32_t panel = slot + chunk / 8 * SM90_PANEL + flash_warp() * 16 * 128;
    UNROLL
    for (uint32_t i = 0; i < 8; i++) {
        const uint32_t row = i * 2 + lane / 16;
        const uint64_t high = shuffle((uint32_t)(address >> 32), row);
        const uint64_t from = high << 32 | shuffle((uint32_t)address, row);
        const uint8_t *source = (const uint8_t *)(uintptr_t)from + chunk * 16;
        cp_async16(panel + row * 128 + ((chunk % 8 ^ row % 8) << 4),
                   from != 0 ? source : (const uint8_t *)anywhere, from != 0);
    }
}

/* The warp's rows of the slot are there. */
DEVICE void sm90_tell(const struct sm90_ring &ring, struct sm90_turn &told)
{
    publish_smem_to_async();
    warp_sync();
    if (threadIdx.x % WARP == 0)
        mbarrier_arrive(ring.full + told.slot * 8);
    sm90_next(told);
}

DEVICE void sm90_bring(const struct attention_parameters &p, const struct flash_tile &t,
                       const struct sm90_ring &ring)
{
    const uint32_t begin = t.keys.begin / FLASH_KEYS * FLASH_KEYS;
    struct sm90_turn now = {0, 0}, told = {0, 0};
    struct flash_key key = flash_find(p, t, begin);
    uint64_t v = 0; /* of the tile before */
    uint32_t n = 0;
    for (uint32_t first = begin; first < t.keys.end + FLASH_KEYS; first += FLASH_KEYS) {
        const struct flash_key next = flash_find(p, t, first + FLASH_KEYS);
        UNROLL
        for (uint32_t is_v = 0; is_v < 2; is_v++) {
            if (is_v ? first == begin : first >= t.keys.end)
                continue;
            mbarrier_wait(ring.empty + now.slot * 8, now.phase ^ 1);
            sm90_load(ring.slots + now.slot * SM90_SLOT_BYTES, is_v ? v : key.k, p.queries);
            cp_async_commit();
            sm90_next(now);
            if (n++ >= SM90_LAG) {
                cp_async_wait<SM90_LAG>();
                sm90_tell(ring, told);
            }
        }
        v = key.v;
        key = next;
    }
    cp_async_wait<0>();
    while (told.slot != now.slot)
        sm90_tell(ring, told);
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
    UNROLL
    for (uint32_t k = 0; k < SM90_HEAD / 16; k++)
        wgmma_narrow((float(&)[FLASH_KEYS / 2]) s, q[k],
                     wgmma_operand(slot + k / 4 * SM90_PANEL + k % 4 * 32, 16, 1024), k > 0);
    wgmma_commit();
}

DEVICE void sm90_add(uint32_t slot, const uint32_t (&a)[FLASH_KEYS / 16][4],
                     struct flash_sums<SM90_HEAD> &sums)
{
    UNROLL
    for (uint32_t k = 0; k < FLASH_KEYS / 16; k++)
        wgmma_registers((float(&)[SM90_HEAD / 2]) sums.o, a[k],
                        wgmma_operand(slot + k * 16 * 128, SM90_PANEL, 1024), true);
    wgmma_commit();
}

DEVICE void sm90_pack(const float (&s)[FLASH_KEYS / 8][4], uint32_t (&a)[FLASH_KEYS / 16][4])
{
    UNROLL
    for (uint32_t k = 0; k < FLASH_KEYS / 16; k++)
        flash_pack<true>(s, k, a[k]);
}

/* A slot is left when nothing reads it any more. */
DEVICE void sm90_attend(const struct attention_parameters &p, const struct flash_tile &t,
                        const struct sm90_ring &ring, struct flash_sums<SM90_HEAD> &sums)
{
    uint32_t first = t.keys.begin / FLASH_KEYS * FLASH_KEYS;
    uint32_t q[SM90_HEAD / 16][4], a[FLASH_KEYS / 16][4];
    float s[FLASH_KEYS / 8][4], factor[2];
    struct sm90_turn turn = {0, 0};
    flash_load_queries<SM90_HEAD, true>(p, t, q);
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
}

DEVICE void sm90_set_barriers(const struct sm90_ring &ring, uint32_t n_heads)
{
    if (threadIdx.x == 0) {
        for (uint32_t i = 0; i < SM90_SLOTS; i++) {
            mbarrier_init(ring.full + i * 8, 4);
            mbarrier_init(ring.empty + i * 8, 4 * n_heads);
        }
        mbarrier_publish();
    }
    cta_sync();
}

DEVICE void attention_flash_sm90_body(const struct attention_parameters &p)
{
#if IS_SM90
    SHARED_MEMORY(memory);
    const uint32_t slots = shared_address(memory), n_slots_bytes = SM90_SLOTS * SM90_SLOT_BYTES;
    const struct sm90_ring ring = {slots, slots + n_slots_bytes,
                                   slots + n_slots_bytes + SM90_SLOTS * 8};
    const struct sm90_pair pair = sm90_pair_of(p);
    sm90_set_barriers(ring, pair.n_heads);
    if (threadIdx.x < 128) {
        registers_give<56>();
        const struct flash_tile t = flash_tile_of(p, pair.tile, pair.first_head);
        if (t.sequence->kind != SEQUENCE_IS_DUMMY)
            sm90_bring(p, t, ring);
    } else {
        registers_take<224>();
        const uint32_t of_pair = threadIdx.x / 128 - 1;
        if (of_pair < pair.n_heads) {
            const struct flash_tile t = flash_tile_of(p, pair.tile, pair.first_head + of_pair);
            struct flash_sums<SM90_HEAD> sums;
            flash_begin<SM90_HEAD>(p, t, sums);
            if (t.sequence->kind != SEQUENCE_IS_DUMMY)
                sm90_attend(p, t, ring, sums);
            barrier_sync(1, pair.n_heads * 128); /* nobody reads the slots any more */
            flash_store<SM90_HEAD>(p, t, (float *)memory + of_pair * 64 * (SM90_HEAD + 4), sums);
        }
    }
#endif
}
