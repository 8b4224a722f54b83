/*
 * attention - the operator: bias, q/k norm, RoPE, writing to the KV cache, attention over it.
 *
 * A step is one batch, context sequences first, then generation sequences:
 *
 *     q        [n_rows][n_heads head_dim]        k, v  [n_kv_rows][n_kv_heads head_dim]
 *     output   [n_rows][n_heads head_dim]        lse   [n_rows][n_heads]
 *     cache    block = [layer][K, V][kv_head][token][dim], strides are data: kv_view
 *
 * q, k and v are separate arrays or parts of one fused projection, as the strides say. Packed: the rows of a
 * sequence follow those of the sequence before it. Padded: every sequence begins at a multiple of the padded
 * length, and the padding rows after its own rows are neither read nor written.
 *
 *     s[i][j] = cap(scale q[i] k[j]) + bias[i][j] + mask[i][j]      cap(x) = soft_cap tanh(x / soft_cap)
 *     p[i][j] = exp(s[i][j]) / (sum over j of exp(s[i][j]) + exp(sink))
 *     output[i] = sum over j of p[i][j] v[j]                        a row that sees no key is zero
 *     lse[i]    = log of that denominator, natural; -inf when it is empty
 *
 * Order of calls: create (once a layer), metadata_create (once a layer group), then for each step
 * metadata_prepare and, layer by layer, forward.
 *
 * The result of a sequence depends only on its own tokens, not on other sequences of the batch, its chunks,
 * block_tokens or the number of threads. A token gives the same bits in the context and in the generation
 * phase. The exceptions: any math but MATH_COMPUTE (MATH_INT8 also depends on the chunks), sink_tokens, and
 * PATH_UNFUSED and PATH_SHORT, which sum in another order.
 *
 * NaN and infinities: a row that sees one in Q, K or V has a NaN or an infinity in its output (and in lse, for Q and K). A row
 * that does not see it has the same bits as without it. There are two exceptions. MATH_INT8 rounds K of a tile together. On a
 * device, rows go through a product together, so that a row which does not see a V may have its NaN, too. 8-bit caches hold no
 * infinity, and INT8 holds no NaN: rounding into them gives a number.
 *
 * Every feature has a number: attention_features.h.
 *
 * Thread: one at a time for all objects of a step; forward uses the pool given at creation.
 */
#pragma once

#include "base/status.h"
#include "kernels/dtype.h"
#include "kernels/rope.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct thread_pool;

#define HEAD_DIM_MAX              512u
#define BLOCK_TOKENS_MIN          8u
#define BLOCK_TOKENS_MAX          128u
#define DRAFT_TOKENS_MAX          64u
#define ATTENTION_ROPES_MAX       4u
#define ATTENTION_ARENA_ALIGNMENT 64u /* bytes */

/* Which keys a query sees, by the query's index in its sequence. */
enum attention_mask {
    MASK_CAUSAL,            /* lower right: query i of n sees keys 0 .. kv_len - n + i */
    MASK_CAUSAL_UPPER_LEFT, /* query i of the step's n sees keys 0 .. i */
    MASK_BIDIRECTIONAL,     /* every key; a prompt comes in one chunk */
};

/* A mask that comes with the step, in addition to the one above. */
enum attention_mask_input {
    MASK_INPUT_NONE,
    MASK_INPUT_BOOL,  /* uint8_t, 0: not seen */
    MASK_INPUT_FLOAT, /* added to the score; -inf: not seen */
};

/* Where the keys come from. */
enum attention_keys {
    KEYS_SELF,  /* the same tokens as the queries: every query writes one key */
    KEYS_CROSS, /* the encoder's tokens, cached once a request (A21) */
    KEYS_SHARD, /* a rank's part of the sequence (A31) */
};

/* How the context phase is computed. All paths give the same result within the dtype's error. */
enum attention_path {
    PATH_AUTO,    /* flash: it takes every configuration, and its bits do not depend on chunks */
    PATH_UNFUSED, /* all scores of some rows are stored, for all keys */
    PATH_SHORT,   /* the scores of a few rows are stored; at most PATH_SHORT_KEYS keys */
    PATH_FLASH,   /* running softmax */
};

#define PATH_SHORT_KEYS 1024u

/* The number format of the context phase's products. On a device MATH_BF16 and MATH_FP16 may apply to generation, too: cuda/attention.h. */
enum attention_math {
    MATH_COMPUTE, /* the compute dtype */
    /* Q, K and V, as they are after RoPE and the cache, rounded to E4M3 by their scales (A4).
     * p = exp(s - m), with m the row's largest s rounded up to a whole multiple of log(2), so that a
     * running m changes no rounding; 256 p is rounded to E4M3. The denominator sums p unrounded. */
    MATH_FP8,
    /* SageAttention (Zhang et al. 2024): Q a row and K a tile rounded to INT8, each in units of its
     * largest magnitude / 127; P V in the compute dtype or in E4M3, a row of V in units of its own. A
     * tile is the keys of a kv head with indices 64 n .. 64 n + 63 in the cache, as many as are there
     * in the step, but not those that a window hides from all its queries; K is rounded less the mean
     * of its tile, an element of the head at a time. */
    MATH_INT8,
    MATH_INT8_PV_FP8,
    /* As flash attention on a GPU: Q (after RoPE, times the factor of the scores), K and V are rounded
     * to BF16; K and V in units of their scales, so that BF16 and 8-bit caches are not rounded at all. p is
     * rounded, too, with the m of MATH_FP8. Products are added in float32; the denominator sums p
     * unrounded. Sets with BF16 instructions (avx512_bf16; amx and amx_bf16) add pairs or more at a time, in
     * another order: their bits differ from the other sets in the products of this math. */
    MATH_BF16,
    /* The same in FP16: F16 and 8-bit caches are not rounded; elements beyond 65,504 become 65,504. A tenth
     * of BF16's error, for models whose activations fit FP16. The set avx512_fp16 multiplies in FP16, adds
     * 32 products in FP16, and adds these sums in float32 (a quarter of BF16's error). There a sum of 32
     * beyond 65,504 becomes infinite, as in the FP16 attention of other engines. */
    MATH_FP16,
};

/* MATH_INT8, MATH_INT8_PV_FP8: keys of a tile. */
#define MATH_INT8_KEYS 64u

enum attention_choice { CHOICE_AUTO, CHOICE_ON, CHOICE_OFF };

/* A bias that is added to the scores; all fields zero: none. Pointers outlive the operator. */
struct attention_bias {
    /* ALiBi (Press et al. 2022): slope(head) * alibi_scale * (key index - query index). Slopes as
     * BLOOM derives them for any number of heads. Falcon scales by 1 / sqrt(head_dim), others by 1. */
    float alibi_scale;
    /* Explicit: table[head][query index][key index]. */
    const float *table; /* [n_heads][n_queries][n_keys] */
    uint32_t n_queries, n_keys;
    /* T5 (Raffel et al. 2020): buckets[head][bucket(key index - query index)]. */
    const float *buckets; /* [n_heads][n_buckets] */
    uint32_t n_buckets, distance_max;
    bool is_bidirectional; /* half of the buckets are for keys after the query */
};

/* Fixed when a layer is created. Arrays are copied unless a comment says otherwise. A device's back end takes qkv_bias, q_norm and
 * k_norm, which are weights of the model, as addresses of the device that are aligned to their elements, and reads them there
 * as long as the layer lives. sinks, bias.table and bias.buckets are in the host's memory and copied at creation. */
struct attention_config {
    uint32_t layer_index; /* in kv_view: its place in a block */
    uint32_t table;       /* whose blocks it uses: limits.n_tables */
    uint32_t n_heads, n_kv_heads;
    uint32_t head_dim;      /* a multiple of 8 up to HEAD_DIM_MAX; on a device up to 256 */
    enum dtype compute;     /* of q, k, v and output: F32, BF16, F16; sums are float32 */
    enum dtype cache;       /* F32, BF16, F16, INT8, E4M3 */
    float k_scale, v_scale; /* INT8 and E4M3: stored = round(x / scale). MATH_FP8 takes them too */
    float q_scale;          /* MATH_FP8: of Q */
    float output_scale;     /* 0: output as compute; else E4M3, stored = round(x / output_scale) */

    float q_scaling; /* scores are divided by q_scaling * sqrt(head_dim); 0 is 1 */
    float scale;     /* the factor of the scores, instead of q_scaling; 0: not given */
    float soft_cap;  /* 0: none */
    struct attention_bias bias;
    /* [n_heads] logits in the denominator (gpt-oss); NULL: none. KEYS_SHARD: on one rank only. */
    const float *sinks;

    enum attention_mask mask;
    enum attention_mask_input mask_input;
    uint32_t window; /* query i sees keys i - window + 1 .. i; 0: all */
    bool is_cyclic;  /* token t is in slot t % window: see kv_slot */
    /* StreamingLLM (Xiao et al. 2024): the first sink_tokens stay visible. In the generation phase a query sees
     * them and the last window - sink_tokens tokens. K is cached before RoPE and rotated by its position among
     * the visible keys. In the context phase a query sees all keys. */
    uint32_t sink_tokens;
    enum attention_keys keys;
    bool reuses_prefix; /* sequences may begin with blocks of other sequences; not with is_cyclic */
    uint32_t n_beams_max; /* 0 and 1: no beams */
    uint32_t
        n_draft_max; /* query tokens of a generation sequence, 0 is 1, up to DRAFT_TOKENS_MAX */

    const struct rope *rope; /* NULL: no rotation; outlives the operator */
    const void *qkv_bias;    /* [(n_heads + 2 n_kv_heads) head_dim], added first; NULL: none */
    enum dtype qkv_bias_dtype;
    const void *q_norm; /* [head_dim] RMS-norm weights, after the bias, before RoPE; NULL: none */
    const void *k_norm;
    enum dtype norm_dtype;
    float norm_eps;

    enum attention_path path;
    enum attention_math math;
    /* Generation: several threads share the keys of a row. AUTO: when there are few rows, or one is far longer than the others,
     * and there is room for partial results. ON: always; needs limits.has_multi_block. */
    enum attention_choice multi_block;
    /* Generation: a row of K and V is read once for all heads of its group. On the host AUTO is always ON: the heads of
     * a group share the loading and transposition of every tile (two cores, 2 to 32 heads a group, 32 to
     * 2,048 keys: OFF takes 1.3 times as long or more). The bits are the same. */
    enum attention_choice grouped;
};

/* Where the blocks are. The owner of the pool fills it in. Strides are in bytes. */
struct kv_view {
    void *base;            /* block 0 */
    uint64_t block_stride; /* block to block; the pool may exceed 4 GiB */
    uint64_t layer_stride; /* 0: n_layers is 1, and all layers use this place in turn */
    uint64_t kv_stride;    /* from K to V of a layer */
    uint64_t head_stride;
    uint64_t token_stride; /* at least head_dim elements */
    uint32_t n_blocks;
    uint32_t n_layers;
    /* Paged: a power of two, BLOCK_TOKENS_MIN .. BLOCK_TOKENS_MAX. Contiguous: any number; a
     * sequence (of a beam) is one block. */
    uint32_t block_tokens;
    bool is_contiguous;
};

/* Fills in the strides of the layout above, without gaps. */
struct kv_view kv_view_dense(void *base, uint32_t n_blocks, uint32_t n_layers, uint32_t n_kv_heads,
                             uint32_t block_tokens, uint32_t head_dim, enum dtype cache);
/* [batch beam][K, V][kv_head][max_seqlen][dim], one layer: block i is row i of the first dimension. */
struct kv_view kv_view_contiguous(void *base, uint32_t n_rows, uint32_t n_kv_heads,
                                  uint32_t max_seqlen, uint32_t head_dim, enum dtype cache);

/* The slot of a token: linear, or cyclic after the slots of the sinks. window 0: linear. */
static inline uint32_t kv_slot(uint32_t token, uint32_t window, uint32_t sink_tokens)
{
    if (window == 0 || token < window)
        return token;
    return sink_tokens + (token - sink_tokens) % (window - sink_tokens);
}

enum attention_phase { PHASE_CONTEXT, PHASE_GENERATION };

/* One sequence of a step. Everything pointed to is borrowed until the step's last forward. */
struct attention_sequence {
    uint64_t request_id;
    enum attention_phase phase;
    uint32_t query_len;  /* tokens of this step, of one beam; generation: 1, or more with a draft */
    uint32_t kv_len;     /* tokens in the cache after this step */
    uint32_t prompt_len; /* context phase: a chunk that ends before it must have whole blocks */
    /* [n_tables][n_beams][n_blocks], in order of slots. Blocks that a window hides from all queries may be any. */
    const uint32_t *block_ids;
    uint32_t n_blocks; /* of one beam: at least its slots / block_tokens, rounded up */

    /* Generation with sink_tokens and a linear cache: a window of its own, over sink_tokens and at most the layers'; 0: theirs. */
    uint32_t window;

    /* Generation: beams, 0 is 1. Rows of the step: query_len of beam 0, then of beam 1 ... */
    uint32_t n_beams;
    /* For each token of each beam, the beam whose blocks hold it; rows are cache_source_stride apart. The newest token of a
     * beam is always its own. NULL: all tokens are. */
    const uint32_t *cache_source; /* [n_beams][kv_len] */
    uint32_t cache_source_stride;

    /* [query_len] rotary positions of every beam; NULL: the indices. Only KEYS_SELF, no sink_tokens. */
    const uint32_t *positions;
    const uint64_t *draft_mask; /* [query_len] bit j: sees draft token j; NULL: linear */

    /* Not KEYS_SELF: new K and V rows of this step, the last ones of kv_len; none with beams. */
    uint32_t new_len;
    uint32_t query_index; /* not KEYS_SELF: index in its sequence of the first query */
    uint32_t key_index;   /* KEYS_SHARD: index in the whole sequence of the first cached key */

    /* A dummy fills up a step of a static metadata, after all real sequences. It has rows and a place in the layout as any
     * other sequence, but no cache: no blocks, and kv_len is query_len (not KEYS_SELF: 0). Its rows of output are zero, and
     * those of lse are -inf. Its rows of q, k and v exist and may hold anything. A back end whose kernels write K and V of
     * every row directs these rows to its own memory. Nothing in kv_view is written for dummies, so several of them cannot
     * race. */
    bool is_dummy;
};

/* The window of a sequence, with sink_tokens. */
static inline uint32_t attention_window_of(const struct attention_sequence *sequence,
                                           uint32_t of_layers)
{
    return sequence->window != 0 ? sequence->window : of_layers;
}

struct attention_step {
    const struct attention_sequence *sequences;
    uint32_t n_sequences;
    /* A step that measures memory. It is checked and laid out as any other, and writes zeros. It neither needs nor touches a
     * cache. On the CPU it touches the scratch memory that the real step would use. */
    bool is_dummy;
    uint32_t padded_query_len; /* rows from a sequence (of a beam) to the next; 0: packed */
    uint32_t padded_new_len;   /* the same for k and v; given only if not KEYS_SELF */
};

/* The bounds of a step, and the fields that all layers of the group share. */
struct attention_limits {
    uint32_t n_sequences_max; /* requests */
    uint32_t n_tokens_max;    /* queries, over all beams */
    /* The bounds of each phase. 0: no other bound than the two above. */
    uint32_t n_contexts_max, n_generations_max, n_context_tokens_max;
    uint32_t n_kv_tokens_max; /* new keys if not KEYS_SELF, else 0 */
    uint32_t kv_len_max;
    uint32_t n_heads, n_kv_heads, head_dim;
    enum dtype cache;
    enum attention_keys keys;
    enum attention_mask mask;
    uint32_t window; /* read if is_cyclic or sink_tokens */
    uint32_t sink_tokens;
    bool is_cyclic;
    /* Each sequence has so many tables of blocks; a layer uses one of them. 0 is 1. */
    uint32_t n_tables;
    uint32_t n_beams_max, n_draft_max; /* 0 is 1 */
    bool has_short_path;               /* a layer has PATH_SHORT: longer contexts are refused */
    bool has_multi_block; /* a layer has multi_block CHOICE_ON: room for the parts of all rows */
    /* The smallest block_tokens of a paged view. 0: BLOCK_TOKENS_MIN. It bounds the block tables that a device's back end
     * sends. */
    uint32_t block_tokens_min;
    uint32_t bias_queries, bias_keys; /* of the smallest attention_bias.table of a layer; 0: none */
    const struct rope *ropes[ATTENTION_ROPES_MAX]; /* of all layers, each once; the rest NULL */
    /* A metadata of the same back end, with limits at least as large, that is destroyed later. A device's back end keeps the
     * partial results of both in one place: their steps run one after the other. NULL: the metadata has its own place, as on
     * a host in any case. */
    const struct attention_metadata *beside;
};

static inline uint32_t attention_n_tables(const struct attention_limits *limits)
{
    return limits->n_tables > 1 ? limits->n_tables : 1;
}

/* A prepared step: shared by the layers of a group, sized at creation, never reallocated. */
struct attention_metadata {
    struct attention_limits limits; /* as given, but a 0 for a phase is replaced by its bound */
    uint32_t n_sequences, n_contexts, n_generations;
    uint32_t n_tokens, n_context_tokens; /* queries, over all beams */
    uint32_t n_kv_tokens;                /* new keys */
    bool is_dummy;
    bool is_static;
    uint32_t n_static, n_static_query; /* generation sequences of every step, and queries of each */
    uint32_t n_dummies;                /* of n_generations, the last */
    uint32_t n_rows, n_kv_rows; /* of q and output, of k and v: padding between rows counts */
    /* The arrays from here to k_sin are one arena. Their places depend on the limits alone; each is at a multiple of
     * ATTENTION_ARENA_ALIGNMENT. The fields above hold their counts, so that the host need not read the arrays again. */
    void *arena; /* its own; NULL: see metadata_use_arena */
    size_t
        arena_used; /* the leading part of metadata_arena_bytes that the step uses; the rest need not be sent */
    struct attention_sequence *sequences; /* [n_sequences] ids, phases, lengths, blocks */
    uint32_t *token_starts;    /* [n_sequences + 1] first query of each; padding is not counted */
    uint32_t *kv_starts;       /* [n_sequences + 1] first new key of each, likewise */
    uint32_t *token_sequences; /* [n_tokens] index into sequences */
    uint32_t *token_rows;      /* [n_tokens] row of q and output */
    uint32_t *indices;         /* [n_tokens] index in the sequence, for masks */
    uint32_t *positions;       /* [n_tokens] rotary position */
    uint32_t *kv_sequences;    /* [n_kv_tokens] */
    uint32_t *kv_rows;         /* [n_kv_tokens] row of k and v */
    uint32_t *kv_indices;      /* [n_kv_tokens] index in the cache: KEYS_SHARD adds key_index */
    uint32_t *kv_beams;        /* [n_kv_tokens] beam whose block table takes it */
    /* Angles of each query and each new key, one table for each of limits.ropes. */
    float *q_cos[ATTENTION_ROPES_MAX], *q_sin[ATTENTION_ROPES_MAX]; /* [n_tokens][rotary_dim / 2] */
    float *k_cos[ATTENTION_ROPES_MAX], *k_sin[ATTENTION_ROPES_MAX]; /* those of q if KEYS_SELF */
    /* sink_tokens: angles of positions 0 .. kv_len_max - 1, for keys that are rotated when they are read. */
    float *position_cos, *position_sin; /* [kv_len_max][rotary_dim / 2], of ropes[0] */
    struct kv_view kv;
    struct attention_workspace *workspace; /* private to the back end */
};

/* One layer's tensors. q, k, v: the compute dtype, any alignment (on a device: of the element); strides in elements. */
struct attention_io {
    const void *q, *k, *v;
    uint64_t q_stride, k_stride, v_stride;
    void *output; /* compute dtype, or E4M3 */
    uint64_t output_stride;
    float *lse; /* [n_rows][n_heads]; may be NULL */
    /* The layer reads the place of another one, which has written K and V of the step's tokens: k and v are not read, nothing is
     * written. Not with is_cyclic; not on a device. */
    bool is_written;
    /* mask_input: [n_sequences][query of the sequence][key index], strides in elements; a stride of
     * 0 broadcasts. uint8_t or float. */
    const void *mask;
    uint64_t mask_sequence_stride, mask_query_stride;
};

/* The tensors if Q, K and V are side by side in rows of (n_heads + 2 n_kv_heads) head_dim elements. Leaves mask and
 * lse unset. */
struct attention_io attention_io_fused(const struct attention_config *config, const void *qkv,
                                       uint64_t qkv_stride, void *output, uint64_t output_stride);

struct attention;

/* reference, cpu (one table for each instruction set) and cuda implement it. A new one is a file and a
 * line in attention_backends.c: docs/new-backend.md. */
struct attention_backend {
    const char *name; /* equal names: equal bits, with the exceptions in kernels.h */
    uint64_t
        features; /* bit n: feature n is computed (attention_features.h); create refuses others */
    /* INVALID_ARGUMENT: a value is out of range, or two features exclude each other. UNSUPPORTED: valid, but this back end does
     * not compute it. The sentence names the field and its value. pool may be NULL: everything runs on the caller. */
    enum status (*create)(const struct attention_config *config, struct thread_pool *pool,
                          struct attention **attention_out, struct error *error);
    void (*destroy)(struct attention *attention); /* NULL is fine */

    enum status (*metadata_create)(const struct attention_limits *limits, struct thread_pool *pool,
                                   struct attention_metadata **metadata_out, struct error *error);
    void (*metadata_destroy)(struct attention_metadata *metadata); /* NULL is fine */

    /* INVALID_ARGUMENT: the step exceeds the limits; a context comes after a generation; a chunk that is not the last one is
     * no multiple of block_tokens; a block id or count is outside the view; rows of the view overlap, or its end does not
     * fit in 64 bits; on a device also a view that is not aligned to its elements. Then nothing is prepared. */
    enum status (*metadata_prepare)(struct attention_metadata *metadata,
                                    const struct attention_step *step, const struct kv_view *kv,
                                    struct error *error);

    /* From now on every step has n_generations generation sequences of n_query query tokens each; the last of them may be
     * dummies. Everything that the metadata points to keeps its address, so that a captured graph can be replayed. It is
     * called once. */
    enum status (*metadata_make_static)(struct attention_metadata *metadata, uint32_t n_generations,
                                        uint32_t n_query, struct error *error);

    /* The size of the arrays of a step. It is the same for equal limits. */
    size_t (*metadata_arena_bytes)(const struct attention_metadata *metadata);
    /* Points the arrays into the caller's memory, which must stay valid until the next call or destroy. Several metadata may
     * take turns in it. A device's back end has no arena of its own: before prepare this call gives it memory of the host,
     * and before kv_update and forward the address where the device has those bytes. The memory begins at a multiple of
     * ATTENTION_ARENA_ALIGNMENT. Nothing is written or copied: prepare fills the memory, or the caller copies to it what
     * prepare wrote elsewhere for equal limits. The first call frees the metadata's own arena. */
    void (*metadata_use_arena)(struct attention_metadata *metadata, void *base);

    /* Applies bias, norm and RoPE to K and V and writes them to the cache. forward does this too: before the attention, or after
     * it when several queries write to a cyclic cache and still see what they overwrite. Nothing in io is written. */
    enum status (*kv_update)(const struct attention *attention,
                             const struct attention_metadata *metadata,
                             const struct attention_io *io, struct error *error);
    /* Both functions: INVALID_ARGUMENT, before anything is written: the layer does not belong to the group of the metadata
     * (its rope, its layer_index in the view, its values in the limits); or a tensor is missing, its rows overlap, or its
     * end does not fit in 64 bits. The check takes constant time. forward: also if the pool of the layer has more threads
     * than that of the metadata. */
    enum status (*forward)(const struct attention *attention,
                           const struct attention_metadata *metadata, const struct attention_io *io,
                           struct error *error);
};
